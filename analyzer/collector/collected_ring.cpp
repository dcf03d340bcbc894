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
    end_ = 0;
    tick_ = 0;
  }
  seen_ = now;
  sighting_due_ = false;
  if (!now.thread) return end_ = now.appended, 0;
  const std::uint64_t known = std::max(end_, now.appended);
  end_ = known;
  while (end_ - now.appended < capacity_ && load(words_[end_ % capacity_]) >> 63 == ((end_ / capacity_ & 1) ^ 1)) end_++;
  const std::uint64_t place = end_ - now.delta;
  if (end_ == known) {
    // Nothing new: all that is to come comes after this look.
    if (!sightings_.empty() && sightings_.back().at == place) sightings_.back().empty = before;
  } else if (sightings_.size() < kMostSightings &&
             (sightings_.empty() || before >= sightings_.back().seen + sighting_interval)) {
    sightings_.push_back({place, 0, before});
    sighting_due_ = true;
  }
  return end_ - now.appended;
}

void CollectedRing::looked(Tick after) {
  if (sighting_due_) sightings_.back().seen = after;
  sighting_due_ = false;
}

bool CollectedRing::copy(Words& to) {
  const std::uint64_t count = std::min<std::uint64_t>(end_ - seen_.appended, format::kMostPackedWords);
  copied_.resize(count);
  for (std::uint64_t i = 0; i < count; i++) copied_[i] = load(words_[(seen_.appended + i) % capacity_]) & ~format::kLapBit;
  to.thread = seen_.thread;
  to.tid = slot_->tid;
  to.stream_at = seen_.appended - seen_.delta;
  to.first_tick = std::max<Tick>(load(slot_->first_tick), tick_);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (count == 0 || owner() != seen_) return false;
  to.words = copied_;
  const std::uint64_t end = to.stream_at + count;
  // Of words that the owner has appended itself.
  std::erase_if(sightings_, [&](const Sighting& each) { return each.at < to.stream_at; });
  copied_sightings_ = static_cast<std::size_t>(
      std::find_if(sightings_.begin(), sightings_.end(), [&](const Sighting& each) { return each.at > end; }) -
      sightings_.begin());
  to.sightings = {sightings_.data(), copied_sightings_};
  return true;
}

void CollectedRing::take_off() {
  std::uint64_t expected = seen_.appended;
  const std::uint64_t end = seen_.appended + copied_.size();
  std::atomic_ref<std::uint64_t>(slot_->appended).compare_exchange_strong(expected, end, std::memory_order_release);
  sightings_.erase(sightings_.begin(), sightings_.begin() + static_cast<std::ptrdiff_t>(copied_sightings_));
  for (auto word = copied_.rbegin(); word != copied_.rend(); ++word)
    if (format::is_stamp(*word)) {
      tick_ = *word >> format::kTickShift;
      break;
    }
}

}  // namespace heapspy::collector
