// From a return address to its rule: filled as addresses are met. A process-wide hash without locks; when it is full a larger
// one takes its place, and the old one stays, because somebody may be reading it.
//
// Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include <atomic>
#include <cstdint>

#include "hot.h"
#include "lock.h"
#include "rule.h"

namespace heapspy::unwind {

// A place in code: bits 0 to 46 the address, bit 47 kInterrupted, from bit 48 the number of its module.
inline constexpr uint64_t kInterrupted = 1ull << 47;  // the very instruction, not a return address
inline constexpr uint64_t kPlaceBits = (1ull << 48) - 1;

struct Known {
  uint64_t code;  // place and module
  uint64_t rule;  // with an id that stands for `code` in the index of the stack table
};

class RuleTable {
 public:
  // `place`: without module.
  HEAPSPY_HOT Known find(uint64_t place) {
    const Generation* table = table_.load(std::memory_order_acquire);
    if (__builtin_expect(table != nullptr, 1)) {
      for (uint64_t at = hash(place), probe = 0; probe < kMostProbes; probe++, at++) {
        const Entry& entry = table->entry(at);
        const uint64_t code = entry.code.load(std::memory_order_relaxed);
        if (__builtin_expect((code & kPlaceBits) == place, 1)) {
          const uint64_t rule = entry.rule.load(std::memory_order_acquire);
          // Read again: it may have been another module's before the rule was there.
          if (__builtin_expect(rule != 0, 1)) return {entry.code.load(std::memory_order_relaxed), rule};
          break;
        }
        if (!code) break;
      }
    }
    return find_out(place);
  }
  // Its rules are computed anew when they are asked for. For one thread at a time.
  void forget_module(uint32_t number);
  // What stands for a frame in the index of the stack table; 0: there are no more.
  uint32_t new_id();
  uint64_t private_bytes() const { return more_bytes_; }

 private:
  struct Entry {
    std::atomic<uint64_t> code;
    std::atomic<uint64_t> rule;  // 0: not known
  };
  struct Generation {
    uint64_t mask;
    std::atomic<uint64_t> used;
    Entry& entry(uint64_t at) const { return reinterpret_cast<Entry*>(const_cast<Generation*>(this) + 1)[at & mask]; }
  };
  static constexpr uint64_t kFirstEntries = 512, kMostEntries = 1 << 20, kMostProbes = 64;

  // Calls that stand near each other lead to entries that do.
  static uint64_t hash(uint64_t place) { return (place >> 4) + (place >> 16) * 0x9E3779B1ull; }
  HEAPSPY_COLD Known find_out(uint64_t place);
  void keep(uint64_t code, uint64_t rule);
  void grow(Generation* seen);

  std::atomic<Generation*> table_;
  std::atomic<uint32_t> ids_;
  uint64_t more_bytes_;
  Lock lock_;
  alignas(64) Generation first_;
  Entry first_entries_[kFirstEntries];
};

}  // namespace heapspy::unwind
