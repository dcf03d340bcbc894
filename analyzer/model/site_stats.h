// What each site (call stack) allocated, and what became of it. Sites of blocks whose stack is not known are one, SiteId::none.
//
// Memory: some 200 bytes a site, and 4 for each thread that allocated there. Constant time an event: what a site held at the
// program's peak is noted when its bytes change for the first time after a peak, not at each of the peaks.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "analyzer/model/lifetimes.h"
#include "analyzer/model/site_scope.h"
#include "analyzer/model/thread_table.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

// Counts and bytes as in `report --json`: sites[]; estimates in mode sample.
struct SiteFigures {
  trace::SiteId site = trace::SiteId::none;
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;  // asked for by allocations and reallocations
  std::uint64_t reallocations = 0;
  std::uint64_t temporary = 0;                    // its blocks, freed by the very next event of its thread
  std::uint64_t peak_bytes = 0, peak_blocks = 0;  // that it held when the program's live bytes were highest
  std::uint64_t most_bytes = 0, most_blocks = 0;  // that it held when its own were
  std::uint64_t live_blocks = 0, live_bytes = 0;  // at the end of the trace
  // Of its blocks that ended. Buckets as in Lifetimes.
  std::uint64_t ended_blocks = 0;
  std::uint64_t ended_by_others = 0;  // by another thread than had allocated them
  struct Ender {
    trace::ThreadId thread = trace::ThreadId::none;
    double blocks = 0;
  };
  std::vector<Ender> enders;  // the first kEnders of those threads
  static constexpr std::size_t kEnders = 8;
  double mean_lifetime_s = 0;
  double lifetimes_s = 0;  // sum over all its blocks, those that live on up to the end
  std::array<std::uint64_t, Lifetimes::kBuckets> lifetimes{};
  // Reallocations: what each had to carry over, the smaller of the two sizes; of that where the block moved; the sizes to
  // which its blocks were brought in the end, and the largest.
  std::uint64_t carried_bytes = 0, moved_bytes = 0, final_bytes = 0, largest_bytes = 0;
  std::vector<trace::ThreadId> threads;  // that allocated there, by id
};

class SiteStats final : public trace::Observer {
 public:
  // `scope` must outlive this.
  SiteStats(const SiteScope& scope, const trace::Clock&);

  // By site; those that no block in scope came from are left out.
  std::vector<SiteFigures> figures(trace::Tick end) const;

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;
  void failed(trace::ThreadId, trace::Origin, std::uint64_t size, trace::Tick) override;
  void unknown_release(trace::ThreadId, std::uint64_t address, trace::Release, bool inherited, trace::Tick) override;

 private:
  struct Site {
    double allocations = 0, bytes = 0, reallocations = 0, temporary = 0;
    double live_blocks = 0, live_bytes = 0, bytes_at_peak = 0, blocks_at_peak = 0;
    double most_bytes = 0, most_blocks = 0;
    double born_ticks = 0;   // sum over live blocks
    std::uint64_t peak = 0;  // the peak that bytes_at_peak is of
    double ended_blocks = 0, lived_ticks = 0, ended_by_others = 0;
    std::vector<SiteFigures::Ender> enders;
    std::array<float, Lifetimes::kBuckets> lifetimes{};
    double carried_bytes = 0, moved_bytes = 0, final_bytes = 0;
    std::uint64_t largest_bytes = 0;
    trace::ThreadId last_thread = trace::ThreadId::none;
    std::vector<trace::ThreadId> threads;
  };
  Site& at(trace::SiteId);
  void hold(const trace::Block&, double weight);
  void let_go(const trace::Block&, double weight);
  void keep_peak(Site&) const;
  void grown();
  void belongs(Site&, trace::SiteId, trace::ThreadId);
  static void ended_by_another(Site&, trace::ThreadId, double weight);

  const SiteScope& scope_;
  Lifetimes lives_;  // its buckets
  double seconds_per_tick_;
  std::vector<Site> sites_;                 // by SiteId
  double live_bytes_ = 0, peak_bytes_ = 0;  // of the whole program, in scope or not
  std::uint64_t peaks_ = 0;
  ThreadTable<std::uint64_t> newest_;          // address of what the thread's latest event allocated; 0: it did not allocate
  std::unordered_set<std::uint64_t> members_;  // site << 32 | thread
};

}  // namespace heapspy::model
