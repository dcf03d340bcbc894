// One slot of a staging segment of a running process, seen from outside through a mapping of its trace.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/trace/packed_words.h"
#include "heapspy/format/layout.h"

namespace heapspy::collector {

using trace::Sighting;
using trace::Tick;

// Looks at the ring, copies words out of it and takes them off. The owner writes at the same time, appends words itself when
// the ring is nearly full, and may leave the slot to another thread at any moment: what was copied counts only if the slot
// still says the same afterwards. For one thread; the mapping must outlive it.
class CollectedRing {
 public:
  // `words`: of the ring in the mapping; their number is a power of two.
  CollectedRing(format::SlotHeader* slot, const std::uint64_t* words, std::uint64_t capacity)
      : slot_(slot), words_(words), capacity_(capacity) {}

  // Finds the end of what is written, and notes it as a sighting if one is due: `before` and `after` are clock readings from
  // around the look. Returns how many words are in the ring and not in the file.
  std::uint64_t look(Tick before, Tick sighting_interval);
  std::uint64_t seen_words() const { return end_; }               // position of the end as last seen: grows
  std::uint64_t staged() const { return end_ - seen_.appended; }  // as the last look found
  // After the look, with the clock read again.
  void looked(Tick after);

  struct Words {
    std::span<const std::uint64_t> words;  // lap bits off; until the next take
    std::span<const Sighting> sightings;
    std::uint32_t thread = 0, tid = 0;
    std::uint64_t stream_at = 0;
    Tick first_tick = 0;
  };
  // Copies what the last look found. False: the slot changed meanwhile, there is nothing to be had.
  bool take(Words& to);
  // The words taken last are in the file: takes them off the ring, unless the owner has. Their sightings are gone.
  void take_off();

 private:
  struct Owner {
    std::uint32_t thread = 0;
    std::uint64_t delta = 0, appended = 0;
    bool operator==(const Owner&) const = default;
  };
  Owner owner() const;
  bool written(std::uint64_t position) const;
  std::uint64_t find_end(std::uint64_t from, std::uint64_t limit) const;
  void copy();

  format::SlotHeader* slot_;
  const std::uint64_t* words_;
  std::uint64_t capacity_;
  Owner seen_;             // at the last look
  std::uint64_t end_ = 0;  // position after the last word that was seen
  bool sighting_due_ = false;
  Tick tick_ = 0;                      // of the latest stamp that was taken off
  std::vector<std::uint64_t> copied_;  // from seen_.appended on, lap bits off
  std::vector<Sighting> sightings_;
  std::size_t taken_sightings_ = 0;
};

}  // namespace heapspy::collector
