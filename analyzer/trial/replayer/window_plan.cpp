#include "window_plan.h"

#include "own_memory.h"

namespace heapspy::trial {

namespace {

template <class Item>
Item* room_for(uint64_t count) {
  return static_cast<Item*>(shared_memory(count * sizeof(Item)));
}

}  // namespace

void WindowPlan::begin(const Operation* operations, uint32_t threads) {
  operations_ = operations;
  late_ = room_for<uint8_t>(2 * kWindow);
  carried_ = room_for<uint64_t>(kWindow);
  putting_off_ = room_for<uint64_t>(kWindow);
  state_ = room_for<uint8_t>(threads);
  seen_ = room_for<uint32_t>(threads);
  for (Window& window : windows_) {
    window.who = room_for<uint32_t>(threads);
    window.ended = room_for<uint32_t>(threads);
    window.parts = room_for<Window::Part>(threads);
    window.order = room_for<uint16_t>(2 * kWindow);
  }
}

// Whether the operation must come after one that another thread plays in this window. It can be put off by one window only:
// `end_of_window` says that this one has to end before it.
bool WindowPlan::put_off(uint64_t at, bool* end_of_window) const {
  const Operation& operation = operations_[at];
  // What came before it in its thread keeps its place: a thread ends behind all that it does.
  if (operation.play == Play::thread_end) return state_[operation.thread] & kPutOff;
  if (!operation.since || operation.since > at - before_) return false;
  const uint64_t earlier = at - operation.since;
  const bool same_thread = operations_[earlier].thread == operation.thread;
  const uint32_t here = 1, played_in = (earlier >= first_ ? here : 0) + is_put_off(earlier);
  if (played_in < here) return false;
  if (same_thread) return played_in > here;
  *end_of_window = played_in > here;
  return true;
}

void WindowPlan::take_part(Window& window, uint64_t at) {
  const uint32_t thread = operations_[at].thread;
  if (window.parts[thread].to++ == 0) window.who[window.threads++] = thread;
  if (operations_[at].play != Play::thread_end) return;
  window.ended[window.endings++] = thread;
  if (!state_[thread]) seen_[seen_count_++] = thread;
  state_[thread] |= kOver;
}

Window& WindowPlan::next() {
  Window& window = windows_[turn_];
  turn_ ^= 1;
  for (uint32_t i = 0; i < window.threads; i++) window.parts[window.who[i]] = {0, 0};
  window.threads = window.endings = 0;
  first_ = window.first = next_;
  window.base = before_;
  for (uint32_t i = 0; i < carried_count_; i++) take_part(window, carried_[i]);
  uint64_t at = first_;
  for (; at < first_ + kWindow; at++) {
    const Operation& operation = operations_[at];
    if (operation.play == Play::end || (at > first_ && operation.time_us > operations_[first_].time_us + kWindowUs)) break;
    if (state_[operation.thread] & kOver && operation.play <= Play::thread_end) break;
    bool ends = false;
    const bool late = put_off(at, &ends);
    if (ends) break;
    late_[at % (2 * kWindow)] = late;
    if (!late) {
      take_part(window, at);
      continue;
    }
    putting_off_[putting_off_count_++] = at;
    if (!state_[operation.thread]) seen_[seen_count_++] = operation.thread;
    state_[operation.thread] |= operation.play == Play::thread_end ? kOver | kPutOff : kPutOff;
  }
  window.operations = static_cast<uint32_t>(at - first_);
  window.is_last = operations_[at].play == Play::end && putting_off_count_ == 0;

  uint32_t from = 0;
  for (uint32_t i = 0; i < window.threads; i++) {
    Window::Part& part = window.parts[window.who[i]];
    const uint32_t count = part.to;
    part.from = part.to = from;
    from += count;
  }
  const auto place = [&](uint64_t operation) {
    window.order[window.parts[operations_[operation].thread].to++] = static_cast<uint16_t>(operation - window.base);
  };
  for (uint32_t i = 0; i < carried_count_; i++) place(carried_[i]);
  for (uint64_t i = first_; i < at; i++)
    if (!is_put_off(i)) place(i);

  uint64_t* const played = carried_;
  carried_ = putting_off_;
  carried_count_ = putting_off_count_;
  putting_off_ = played;
  putting_off_count_ = 0;
  for (; seen_count_; seen_count_--) state_[seen_[seen_count_ - 1]] = 0;
  before_ = first_;
  next_ = at;
  return window;
}

}  // namespace heapspy::trial
