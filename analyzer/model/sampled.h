// Estimates from a sample of blocks (mode `sample`). A block of n bytes was sampled with probability P = 1 - exp(-n / mean),
// n = 0 as 1 byte, so each sampled block stands for 1/P blocks (Horvitz and Thompson 1952): the sums are unbiased, and the
// variance of a sum of x is estimated by the sum of (1 - P) / P² · x².
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/model/lifetimes.h"
#include "analyzer/model/size_histogram.h"
#include "analyzer/model/thread_stats.h"
#include "analyzer/model/thread_table.h"
#include "analyzer/model/timeline_curve.h"
#include "analyzer/model/totals.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

// Of estimates; in the estimate's own unit.
struct StandardErrors {
  double allocations = 0, frees = 0, reallocations = 0, bytes_allocated = 0;
  double live_bytes = 0, live_blocks = 0, peak_live_bytes = 0;
};

struct SampledFigures {
  Totals totals;
  StandardErrors errors;
  std::vector<ThreadFigures> threads;         // by id
  std::vector<StandardErrors> thread_errors;  // as threads; no peak
  std::vector<SizeRow> sizes;
  std::vector<LifetimeRow> lifetimes;
};

class SampleEstimates final : public trace::Observer {
 public:
  SampleEstimates(std::uint64_t mean_bytes, const trace::Clock&);

  // `counted` and `threads`: of the sampled blocks alone; give names, times and what is no estimate.
  SampledFigures figures(const Totals& counted, std::vector<ThreadFigures> threads) const;
  // How many blocks a sampled block of this size stands for, and how many bytes.
  double weight(std::uint64_t size) const { return 1 / probability(size); }
  double bytes_for(std::uint64_t size) const { return weight(size) * static_cast<double>(size); }

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  // The new block of a realloc may just not be sampled, so this says nothing about a free.
  void released_by_realloc(const trace::Block&, trace::ThreadId by, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;

 private:
  struct Sum {
    double value = 0, variance = 0;
  };
  struct Bucket {
    double allocations = 0, bytes = 0, live_blocks = 0, live_bytes = 0;
  };
  struct Counts {
    Sum allocations, frees, reallocations, bytes_allocated, live_bytes, live_blocks, freed_by_others, freed_for_others;
    double peak_live_bytes = 0, peak_variance = 0;
    std::vector<Bucket> sizes;  // of threads: up to the largest in use
  };
  double probability(std::uint64_t size) const;
  void add(Sum&, std::uint64_t size, double x, double sign = 1) const;
  Bucket& size_of(Counts&, std::uint64_t size) const;
  void begin(const trace::Block&, trace::Tick);
  void end(const trace::Block&);
  static StandardErrors errors_of(const Counts&);

  double mean_bytes_;
  Lifetimes lives_;  // its buckets
  Counts all_;
  trace::Tick peak_tick_ = 0;
  std::array<double, 7> origins_{};   // by Origin
  std::array<double, 2> releases_{};  // by Release
  std::array<Bucket, 65> buckets_{};
  std::array<Bucket, Lifetimes::kBuckets> lifetimes_{};  // live_blocks, live_bytes: of those that ended
  ThreadTable<Counts> threads_;
};

}  // namespace heapspy::model
