#include "analyzer/trace/lanes.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace heapspy::trace {

void Lanes::TurnQueue::push(Turn turn) {
  turns_.push_back(turn);
  std::push_heap(turns_.begin(), turns_.end(), std::greater<>());
}

void Lanes::TurnQueue::pop() {
  std::pop_heap(turns_.begin(), turns_.end(), std::greater<>());
  turns_.pop_back();
}

Lanes::Lanes(const Reader& reader, const CursorSettings& settings) : reader_(reader), settings_(settings) {
  lanes_.resize(reader.threads().size());
  for (LaneIndex i = 0; i < reader.threads().size(); i++) {
    const ThreadStream& stream = reader.threads()[i];
    for (const StreamPiece& piece : stream.pieces) total_words_ += piece.words;
    if (!stream.pieces.empty()) starts_.push_back(i);
  }
  std::stable_sort(starts_.begin(), starts_.end(), [&](LaneIndex left, LaneIndex right) { return start(left) < start(right); });
  find_next_start();
}

LaneIndex Lanes::open_next() {
  const LaneIndex index = starts_[next_start_++];
  find_next_start();
  auto lane = std::make_unique<Lane>(reader_, reader_.threads()[index], settings_);
  if (!lane->cursor.open()) {
    closed_words_ += lane->cursor.words_read();
    return index;
  }
  lane->place_in_open = static_cast<std::uint32_t>(open_.size());
  open_.push_back(index);
  lanes_[index] = std::move(lane);
  queue(index);
  return index;
}

void Lanes::close() {
  for (const LaneIndex index : over_) {
    const Lane& lane = *lanes_[index];
    closed_words_ += lane.cursor.words_read();
    open_[lane.place_in_open] = open_.back();
    lanes_[open_.back()]->place_in_open = lane.place_in_open;
    open_.pop_back();
    lanes_[index].reset();
  }
  over_.clear();
}

void Lanes::queue(LaneIndex index) {
  Lane& lane = *lanes_[index];
  if (lane.queued || lane.waits || lane.cursor.done()) return;
  lane.queued = true;
  ready_.push({lane.cursor.estimate(), index});
}

Lane* Lanes::first_ready() {
  while (!ready_.empty()) {
    const Turn turn = ready_.first();
    Lane* lane = lanes_[turn.lane].get();
    if (lane && !lane->waits && !lane->cursor.done() && lane->cursor.estimate() == turn.at) return lane;
    ready_.pop();
    if (!lane) continue;
    lane->queued = false;
    queue(turn.lane);
  }
  return nullptr;
}

LaneIndex Lanes::take_first_ready() {
  const LaneIndex index = ready_.first().lane;
  ready_.pop();
  lanes_[index]->queued = false;
  return index;
}

void Lanes::set_deadline(LaneIndex index, Tick at) {
  lanes_[index]->deadline = at;
  deadlines_.push({at, index});
}

Lane* Lanes::first_deadline(LaneIndex& index) {
  while (!deadlines_.empty()) {
    const Turn turn = deadlines_.first();
    Lane* lane = lanes_[turn.lane].get();
    index = turn.lane;
    if (lane && lane->waits && lane->deadline == turn.at) return lane;
    deadlines_.pop();
  }
  return nullptr;
}

ThreadId Lanes::thread_of(const Lane& lane, std::uint32_t tid) const {
  if (tid == lane.tid) return lane.thread;
  ThreadId newest = ThreadId::none;
  for (const LaneIndex index : open_)
    if (lanes_[index]->tid == tid && lanes_[index]->thread > newest) newest = lanes_[index]->thread;
  for (std::size_t i = next_start_; newest == ThreadId::none && i < starts_.size(); i++)
    if (reader_.threads()[starts_[i]].tid == tid) newest = reader_.threads()[starts_[i]].id;
  // It may have no more events and live on all the same.
  for (std::size_t i = next_start_; newest == ThreadId::none && i-- > 0;)
    if (reader_.threads()[starts_[i]].tid == tid) newest = reader_.threads()[starts_[i]].id;
  return newest;
}

double Lanes::share_read() const {
  std::uint64_t words = closed_words_;
  for (const LaneIndex index : open_) words += lanes_[index]->cursor.words_read();
  return total_words_ ? static_cast<double>(words) / static_cast<double>(total_words_) : 1.0;
}

}  // namespace heapspy::trace
