#include "analyzer/collector/collected_ring.h"

#include <algorithm>
#include <atomic>

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

std::uint64_t CollectedRing::look(Tick before, Tick sighting_interval) {
  const Owner now = owner();
  if (now.thread != seen_.thread || now.delta != seen_.delta) {
    sightings_.clear();
    copied_.clear();
    end_ = first_ = 0;
    tick_ = 0;
  }
  seen_ = now;
  sighting_due_ = false;
  if (!now.thread) return end_ = now.appended, 0;
  if (now.appended >= end_) {
    copied_.clear();
    first_ = 0;
    end_ = now.appended;
  } else {
    first_ = copied_.size() - (end_ - now.appended);
  }
  const std::uint64_t known = end_;
  for (std::uint64_t word; end_ - now.appended < capacity_; end_++) {
    word = load(words_[end_ % capacity_]);
    if (word >> 63 != ((end_ / capacity_ & 1) ^ 1)) break;
    copied_.push_back(word & ~format::kLapBit);
  }
  // A place is written again only after `appended` has passed it: then what was read there may be from another lap.
  std::atomic_thread_fence(std::memory_order_acquire);
  const Owner after = owner();
  if (after.thread != now.thread || after.delta != now.delta || after.appended > known) {
    copied_.resize(copied_.size() - (end_ - known));
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

bool CollectedRing::take(Words& to) {
  to.thread = seen_.thread;
  to.tid = slot_->tid;
  to.stream_at = seen_.appended - seen_.delta;
  to.first_tick = std::max<Tick>(load(slot_->first_tick), tick_);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (staged() == 0 || owner() != seen_) return false;
  to.words = std::span(copied_).subspan(first_);
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
  // Where its owner was faster, it did not come as far as this or came further: from there the ring is read again.
  if (!std::atomic_ref<std::uint64_t>(slot_->appended).compare_exchange_strong(expected, end_, std::memory_order_release))
    end_ = expected;
  sightings_.erase(sightings_.begin(), sightings_.begin() + static_cast<std::ptrdiff_t>(taken_sightings_));
  for (std::size_t i = copied_.size(); i-- > first_;)
    if (format::is_stamp(copied_[i])) {
      tick_ = copied_[i] >> format::kTickShift;
      break;
    }
  seen_.appended = end_;
  copied_.clear();
  first_ = 0;
}

}  // namespace heapspy::collector
