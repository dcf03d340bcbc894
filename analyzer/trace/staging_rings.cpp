#include "analyzer/trace/staging_rings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace heapspy::trace {

namespace {

using format::SlotHeader;

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kLongestHole = 2;  // words that a killed or interrupted writer can leave unwritten
constexpr int kTries = 8;                  // copies of a ring that changes while it is read

bool written_in_lap(std::uint64_t word, std::uint64_t position, std::uint64_t ring_words) {
  return word >> 63 == ((position / ring_words & 1) ^ 1);
}

// The valid words from position `appended` on (layout.h, SlotHeader). Holes become 0 and are counted.
std::vector<std::uint64_t> valid_words(const std::vector<std::uint64_t>& ring, std::uint64_t appended,
                                       std::uint64_t longest_hole, std::uint64_t& holes) {
  const std::uint64_t capacity = ring.size();
  auto right = [&](std::uint64_t count) {
    const std::uint64_t position = appended + count;
    return count < capacity && written_in_lap(ring[position % capacity], position, capacity);
  };
  std::vector<std::uint64_t> words;
  for (std::uint64_t count = 0; count < capacity; count++) {
    if (right(count)) {
      words.push_back(ring[(appended + count) % capacity] & ~format::kLapBit);
      continue;
    }
    std::uint64_t hole = 1;
    while (hole <= longest_hole && !right(count + hole)) hole++;
    if (hole > longest_hole) break;
    holes += hole;
    words.insert(words.end(), hole, 0);
    count += hole - 1;
  }
  return words;
}

}  // namespace

void copy_staging(const TraceFile& file, const FoundChunk& chunk, bool running, StagingCopy& to, std::vector<Damage>& damage) {
  const std::uint64_t segment_at = chunk.payload_at - sizeof(format::ChunkHeader);
  format::StagingHeader header;
  if (file.read(chunk.payload_at, &header, sizeof header) != sizeof header) {
    damage.push_back({segment_at, "the file ends within a staging segment's header"});
    return;
  }
  const std::uint64_t rings_at = segment_at + format::kPageBytes;
  const std::uint64_t end = chunk.payload_at + chunk.payload_bytes;
  const std::uint64_t ring_bytes = header.ring_bytes;
  if (!std::has_single_bit(ring_bytes) || ring_bytes < format::kChunkAlignment || header.slots == 0 ||
      header.slots > format::kMaxSlots || (!chunk.cut && rings_at + header.slots * ring_bytes > end)) {
    damage.push_back({segment_at, "a staging segment's header is damaged; the newest events of its threads are lost"});
    return;
  }

  for (std::uint32_t i = 0; i < header.slots; i++) {
    const std::uint64_t slot_at = chunk.payload_at + sizeof header + i * sizeof(SlotHeader);
    const std::uint64_t ring_at = rings_at + i * ring_bytes;
    SlotHeader slot;
    if (file.read(slot_at, &slot, sizeof slot) != sizeof slot) {
      damage.push_back({slot_at, "the file ends within the slots of a staging segment"});
      return;
    }
    // A ring that its owner has left (mode ring) has a count that went on elsewhere.
    const bool left = slot.thread && slot.filled;
    if (!left) to.lost_events += slot.lost_events;
    if (!left && slot.thread && slot.lost_events) to.lost_by_thread.emplace_back(slot.thread, slot.lost_events);
    if (!slot.thread) continue;

    RingCopy ring;
    std::uint64_t holes = 0;
    bool whole = true;
    for (int attempt = 0; attempt < kTries; attempt++) {
      // Bounded by the file: a cut ring is as long as what is left of it.
      const std::uint64_t size = file.size();
      const std::uint64_t available = ring_at < size ? std::min(ring_bytes, size - ring_at) : 0;
      std::vector<std::uint64_t> words(available / kWordBytes);
      words.resize(file.read(ring_at, words.data(), words.size() * kWordBytes) / kWordBytes);
      whole = words.size() * kWordBytes == ring_bytes;
      holes = 0;
      ring.thread = slot.thread;
      ring.tid = slot.tid;
      ring.stream_at = slot.appended - slot.stream_delta;
      ring.first_tick = slot.first_tick;
      ring.filled = slot.filled;
      ring.counted = {};
      if (slot.counted_at) ring.counted = {slot.counted_at - slot.stream_delta, slot.records};
      ring.words.clear();
      if (whole) ring.words = valid_words(words, slot.appended, running ? 0 : kLongestHole, holes);
      SlotHeader after;
      if (file.read(slot_at, &after, sizeof after) != sizeof after) break;
      if (after.appended == slot.appended && after.thread == slot.thread) break;
      slot = after;
      if (!slot.thread) break;
    }
    if (!slot.thread) continue;  // its owner has left; all its words are in chunks
    if (!whole)
      damage.push_back(
          {ring_at, fmt::format("the file ends within the ring of thread {}; its newest events are lost", ring.thread)});
    if (holes)
      damage.push_back({ring_at, fmt::format("{} of thread {} claimed and never written",
                                             holes == 1 ? "a word" : fmt::format("{} words", holes), ring.thread)});
    to.rings.push_back(std::move(ring));
  }
}

}  // namespace heapspy::trace
