#include "analyzer/model/lifetimes.h"

#include <limits>

namespace heapspy::model {

Lifetimes::Lifetimes(const trace::Clock& clock) {
  double until = 1e-5;
  for (unsigned i = 0; i < kBuckets; i++, until *= 10) {
    rows_[i].from_s = i ? rows_[i - 1].to_s : 0;
    rows_[i].to_s = until;
    until_[i] = i + 1 < kBuckets ? clock.ticks(until) : std::numeric_limits<trace::Tick>::max();
  }
}

void Lifetimes::released(const trace::Block& block, trace::ThreadId, trace::Release, trace::Tick tick) {
  const trace::Tick lived = (tick > block.born ? tick - block.born : 0) + block.lived_before;
  const unsigned i = bucket(lived);
  rows_[i].blocks++;
  rows_[i].bytes += block.size;
}

unsigned Lifetimes::bucket(trace::Tick lived) const {
  unsigned i = 0;
  while (lived >= until_[i] && i + 1 < kBuckets) i++;
  return i;
}

void Lifetimes::inherited_release(const trace::Block& block, trace::ThreadId by, trace::Release how, trace::Tick tick) {
  released(block, by, how, tick);
}

std::vector<LifetimeRow> Lifetimes::rows() const {
  unsigned first = 0, last = kBuckets;
  while (first < kBuckets && rows_[first].blocks == 0) first++;
  while (last > first && rows_[last - 1].blocks == 0) last--;
  return {rows_.begin() + first, rows_.begin() + last};
}

}  // namespace heapspy::model
