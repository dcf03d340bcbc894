#include "analyzer/collector/collected_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "heapspy/format/decode.h"

namespace heapspy::collector {

namespace {

// More than a ring's owner can make worth telling apart before its words are taken.
constexpr std::size_t kMostSightings = 4096;

std::uint64_t load(const std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
}

}  // namespace

CollectedRing::Owner CollectedRing::owner() const {
  Owner owner;
  owner.thread = std::atomic_ref<std::uint32_t>(slot_->thread).load(std::memory_order_acquire);
  owner.delta = load(slot_->stream_delta);
  owner.appended = std::atomic_ref<std::uint64_t>(slot_->appended).load(std::memory_order_acquire);
  return owner;
}

bool CollectedRing::written(std::uint64_t position) const {
  return load(words_[position % capacity_]) >> 63 == ((position / capacity_ & 1) ^ 1);
}

// In steps that double, then by halves: few lines of the ring are touched, because each is one that the owner must fetch again.
// Where a place was claimed and is not written yet (a signal came in between), it may find the end behind it; take() looks at
// every word.
std::uint64_t CollectedRing::find_end(std::uint64_t from, std::uint64_t limit) const {
  std::uint64_t low = from, step = 64;  // all before `low` is written
  while (low + step <= limit && written(low + step - 1)) low += step, step *= 2;
  std::uint64_t high = std::min(low + step, limit + 1) - 1;  // `high` is not, or is the limit
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (written(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

std::uint64_t CollectedRing::look(Tick before, Tick sighting_interval) {
  const Owner now = owner();
  if (now.thread != seen_.thread || now.delta != seen_.delta) {
    sightings_.clear();
    end_ = 0;
    tick_ = 0;
  }
  seen_ = now;
  sighting_due_ = false;
  end_ = std::max(end_, now.appended);
  if (!now.thread) return end_ = now.appended, 0;
  const std::uint64_t known = end_;
  end_ = find_end(known, now.appended + capacity_);
  // A place is written again only after `appended` has passed it: then what was read there may be from another lap.
  std::atomic_thread_fence(std::memory_order_acquire);
  const Owner after = owner();
  if (after.thread != now.thread || after.delta != now.delta || after.appended > known) {
    end_ = known;
    return staged();
  }
  const std::uint64_t place = end_ - now.delta;
  if (end_ == known) {
    // Nothing new: all that is to come comes after this look.
    if (!sightings_.empty() && sightings_.back().at == place) sightings_.back().empty = before;
  } else if (sightings_.size() < kMostSightings &&
             (sightings_.empty() || before >= sightings_.back().seen + sighting_interval)) {
    sightings_.push_back({place, 0, before});
    sighting_due_ = true;
  }
  return staged();
}

void CollectedRing::looked(Tick after) {
  if (sighting_due_) sightings_.back().seen = after;
  sighting_due_ = false;
}

// Block by block, and only then word by word: the lines come from the owner's cache, several at a time.
void CollectedRing::copy() {
  const std::uint64_t count = staged(), start = seen_.appended % capacity_;
  const std::uint64_t first = std::min(count, capacity_ - start);
  copied_.resize(count);
  std::memcpy(copied_.data(), words_ + start, first * sizeof(std::uint64_t));
  std::memcpy(copied_.data() + first, words_, (count - first) * sizeof(std::uint64_t));
  for (std::uint64_t i = 0; i < count; i++) {
    if (copied_[i] >> 63 != (((seen_.appended + i) / capacity_ & 1) ^ 1)) return copied_.resize(i);
    copied_[i] &= ~format::kLapBit;
  }
}

bool CollectedRing::take(Words& to) {
  to.thread = seen_.thread;
  to.tid = slot_->tid;
  to.stream_at = seen_.appended - seen_.delta;
  to.first_tick = std::max<Tick>(load(slot_->first_tick), tick_);
  copy();
  std::atomic_thread_fence(std::memory_order_acquire);
  if (copied_.empty() || owner() != seen_) return false;
  to.words = copied_;
  const std::uint64_t end = to.stream_at + to.words.size();
  // Of words that the owner has appended itself.
  std::erase_if(sightings_, [&](const Sighting& each) { return each.at < to.stream_at; });
  taken_sightings_ = static_cast<std::size_t>(
      std::find_if(sightings_.begin(), sightings_.end(), [&](const Sighting& each) { return each.at > end; }) -
      sightings_.begin());
  to.sightings = {sightings_.data(), taken_sightings_};
  return true;
}

void CollectedRing::take_off() {
  std::uint64_t expected = seen_.appended;
  const std::uint64_t end = expected + copied_.size();
  // Where its owner was faster, it did not come as far as this or came further: from there the ring is read again.
  const bool ours =
      std::atomic_ref<std::uint64_t>(slot_->appended).compare_exchange_strong(expected, end, std::memory_order_release);
  seen_.appended = ours ? end : expected;
  end_ = std::max(end_, seen_.appended);
  sightings_.erase(sightings_.begin(), sightings_.begin() + static_cast<std::ptrdiff_t>(taken_sightings_));
  for (std::size_t i = copied_.size(); i-- > 0;)
    if (format::is_stamp(copied_[i])) {
      tick_ = copied_[i] >> format::kTickShift;
      break;
    }
}

}  // namespace heapspy::collector
