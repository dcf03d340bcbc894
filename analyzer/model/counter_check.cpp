#include "analyzer/model/counter_check.h"

#include <fmt/core.h>

#include <map>
#include <unordered_map>

#include "analyzer/model/counted.h"

namespace heapspy::model {
namespace {

struct CallSums {
  std::uint64_t reallocations = 0, failed = 0, frees = 0;
  std::map<std::uint64_t, std::uint64_t> allocations;  // by where their size class begins

  void add(const ThreadFigures& thread) {
    reallocations += thread.reallocations;
    failed += thread.failed;
    frees += thread.frees;
    for (const SizeRow& row : thread.sizes)
      allocations[std::min(row.from, bucket_from(format::kCountedSizes - 1))] += row.allocations;
  }
};

std::uint64_t excess(std::uint64_t counted, std::uint64_t found) { return counted > found ? counted - found : 0; }

// Without frees: the merge may find that another thread freed a block than the one it was recorded for.
std::uint64_t missing(const CallSums& counted, const CallSums& found) {
  std::uint64_t calls = excess(counted.reallocations, found.reallocations) + excess(counted.failed, found.failed);
  for (const auto& [from, allocations] : counted.allocations) {
    const auto same = found.allocations.find(from);
    calls += excess(allocations, same == found.allocations.end() ? 0 : same->second);
  }
  return calls;
}

}  // namespace

void check_counters(const trace::Reader& reader, const std::vector<ThreadFigures>& decoded) {
  if (reader.header().mode != format::Mode::full || reader.counters().empty() || reader.process().running) return;
  std::unordered_map<trace::ThreadId, const ThreadFigures*> by_id;
  for (const ThreadFigures& thread : decoded) by_id[thread.id] = &thread;

  const CountedFigures figures = counted_figures(reader.counters());
  std::uint64_t calls = 0, frees_counted = 0, frees_found = 0, threads_summed = 0;
  CallSums summed;
  for (std::size_t i = 0; i < figures.threads.size(); i++) {
    const ThreadFigures& thread = figures.threads[i];
    frees_counted += thread.frees;
    if (reader.counters()[i].thread == format::kEndedThreads) {
      threads_summed += reader.counters()[i].threads;
      summed.add(thread);
      continue;
    }
    CallSums counted, found;
    counted.add(thread);
    if (const auto same = by_id.find(thread.id); same != by_id.end()) {
      found.add(*same->second);
      frees_found += found.frees;
      by_id.erase(same);
    }
    calls += missing(counted, found);
  }
  // What is left are the threads that ended long ago, unless some could not be given counters.
  if (by_id.size() <= threads_summed) {
    CallSums found;
    for (const auto& [id, thread] : by_id) found.add(*thread);
    calls += missing(summed, found) + excess(frees_counted, frees_found + found.frees);
  }
  if (calls > reader.lost_events())
    reader.note_loss(calls - reader.lost_events(),
                     fmt::format("the threads counted {} calls that are not in the trace", calls));
}

}  // namespace heapspy::model
