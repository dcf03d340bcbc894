// How long blocks live: from their allocation (not a later realloc) to their end. Blocks never freed are not in it.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/reader.h"

namespace heapspy::model {

// Blocks that lived [from_s, to_s) seconds. Times between stamps are interpolated: good to some microseconds.
struct LifetimeRow {
  double from_s = 0, to_s = 0;
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  // their sizes when freed
};

class Lifetimes final : public trace::Observer {
 public:
  explicit Lifetimes(const trace::Clock&);
  std::vector<LifetimeRow> rows() const;  // from the shortest to the longest bucket in use, empty ones between included

  static constexpr unsigned kBuckets = 12;  // [0, 10 µs), then a decade each; the last has no end (10^6 s is written)
  unsigned bucket(trace::Tick lived) const;
  // Without blocks, for those who count otherwise.
  LifetimeRow empty_row(unsigned bucket) const { return {rows_[bucket].from_s, rows_[bucket].to_s, 0, 0}; }

  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void inherited_release(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;

 private:
  std::array<trace::Tick, kBuckets> until_{};
  std::array<LifetimeRow, kBuckets> rows_{};
};

}  // namespace heapspy::model
