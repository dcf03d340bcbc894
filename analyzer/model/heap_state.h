// Keeps pages and thread caches up to date as events pass, and computes a Moment where one is wanted.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/model/arena_folds.h"
#include "analyzer/model/concurrency.h"
#include "analyzer/model/dynamic_threshold.h"
#include "analyzer/model/moment.h"
#include "analyzer/model/page_map.h"
#include "analyzer/model/thread_cache.h"
#include "analyzer/model/thread_table.h"
#include "analyzer/model/timeline_curve.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

// A snapshot at which a moment is computed.
struct WantedMoment {
  Why why = Why::end;
  std::size_t snapshot = 0;  // number of the snapshot in the trace, from 0
};

class HeapState final : public trace::Observer {
 public:
  using ForEachLive = std::function<void(const std::function<void(const trace::Block&)>&)>;

  // `curve` (may be null) is told what each snapshot says; it must come before this in the list of observers.
  // `for_each_live` is called during snapshot_taken and moment() only.
  // `millisecond`: in ticks.
  HeapState(const HeapFacts&, std::vector<WantedMoment>, ForEachLive for_each_live, TimelineCurve* curve,
            std::size_t top_blocks, trace::Tick millisecond = 1'000'000);

  // Moments say what sites hold, too. `scope` must outlive this.
  void look_at_sites(const SiteScope* scope) { sites_ = scope; }

  const std::vector<Moment>& moments() const { return moments_; }
  std::vector<Moment>& moments() { return moments_; }
  // From when on the trace is known not to hold every block that lives, by what was counted until then.
  void doubt(std::function<bool()> unrecorded) { doubt_ = std::move(unrecorded); }
  bool unrecorded() const { return facts_.unrecorded; }
  // Told of each snapshot (see ModelOptions::at_snapshot); must outlive this.
  void tell_of_snapshots(const std::function<void(const Moment&)>* told) { told_ = told; }
  // From the events alone, as of now.
  Moment moment(Why, trace::Tick);

  const PageMap& pages() const { return pages_; }
  const ThreadCache& caches() const { return caches_; }
  ConcurrencyFigures concurrency() { return concurrency_.figures(); }

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;
  void lived_before(const trace::Block&, trace::ThreadId, trace::Release, trace::Tick) override {}
  void thread_started(trace::ThreadId, std::uint32_t tid, std::string_view name, std::uint64_t stack_address,
                      trace::Tick) override;
  void thread_ended(trace::ThreadId, trace::Tick) override;
  void marked(trace::ThreadId, std::string_view text, trace::Tick) override {
    if (const auto call = trace::mallopt_call(text)) threshold_.set(*call);
  }
  void recording_switched(trace::ThreadId, bool on, trace::Tick) override;
  void snapshot_taken(const trace::Snapshot&) override;

 private:
  void begin(const trace::Block&, trace::ThreadId by, trace::Tick);
  void give_back(const trace::Block&, trace::ThreadId by, trace::Tick);
  void describe(Moment&, const trace::Snapshot&) const;
  void agree_with_live_blocks();
  Moment compute(Why, trace::Tick, const trace::Snapshot*);

  HeapFacts facts_;
  PageMap pages_;
  ThreadCache caches_;
  DynamicThreshold threshold_;
  Concurrency concurrency_;
  ArenaFolds folds_;
  const std::function<void(const Moment&)>* told_ = nullptr;
  std::function<bool()> doubt_;
  std::vector<WantedMoment> wanted_;
  ForEachLive for_each_live_;
  TimelineCurve* curve_;
  const SiteScope* sites_ = nullptr;
  std::size_t top_blocks_;
  std::size_t snapshots_ = 0;
  ThreadTable<std::uint64_t> newest_address_;  // what the thread allocated last, below kLargeBlockBytes
  ThreadTable<std::uint64_t> stacks_;          // 0 unknown or ended
  std::vector<Moment> moments_;
};

}  // namespace heapspy::model
