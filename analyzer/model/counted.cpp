#include "analyzer/model/counted.h"

#include <fmt/core.h>

#include <array>
#include <cstring>

namespace heapspy::model {
namespace {

using format::Call;
using format::ThreadCounters;

std::uint64_t count(const ThreadCounters& counters, Call call) { return counters.calls[static_cast<std::size_t>(call)]; }

std::vector<SizeRow> rows(const std::array<SizeRow, format::kCountedSizes>& sizes) {
  std::vector<SizeRow> used;
  for (const SizeRow& row : sizes)
    if (row.allocations || row.bytes) used.push_back(row);
  return used;
}

std::array<SizeRow, format::kCountedSizes> empty_rows() {
  std::array<SizeRow, format::kCountedSizes> rows;
  for (unsigned i = 0; i < format::kCountedSizes; i++)
    rows[i] = {bucket_from(i), i + 1 == format::kCountedSizes ? bucket_to(64) : bucket_to(i), 0, 0, 0, 0};
  return rows;
}

ThreadFigures thread_figures(const ThreadCounters& from) {
  ThreadFigures thread;
  thread.id = trace::ThreadId{from.thread};
  thread.tid = from.tid;
  thread.name = std::string(from.name, strnlen(from.name, sizeof from.name));
  if (from.thread == format::kEndedThreads)
    thread.name = fmt::format("({} threads that ended)", from.threads);
  else
    thread.start = from.start_tick;
  if (from.end_tick) thread.end = from.end_tick;
  for (const std::uint64_t of_a_size : from.allocations) thread.allocations += of_a_size;
  thread.reallocations = count(from, Call::reallocation) - count(from, Call::failed_reallocation);
  thread.frees = count(from, Call::free) + count(from, Call::operator_delete) + count(from, Call::realloc_freed);
  thread.failed = count(from, Call::failed) + count(from, Call::failed_reallocation);
  auto sizes = empty_rows();
  for (unsigned i = 0; i < format::kCountedSizes; i++) {
    sizes[i].allocations = from.allocations[i];
    sizes[i].bytes = from.bytes[i];
    thread.bytes_allocated += from.bytes[i];
  }
  thread.sizes = rows(sizes);
  return thread;
}

}  // namespace

CountedFigures counted_figures(const std::vector<ThreadCounters>& counters) {
  CountedFigures figures;
  Totals& totals = figures.totals;
  auto sizes = empty_rows();
  for (const ThreadCounters& from : counters) {
    ThreadFigures thread = thread_figures(from);
    totals.allocations += thread.allocations;
    totals.reallocations += thread.reallocations;
    totals.frees += thread.frees;
    totals.failed += thread.failed;
    totals.bytes_allocated += thread.bytes_allocated;
    totals.calls.malloc += count(from, Call::malloc);
    totals.calls.calloc += count(from, Call::calloc);
    totals.calls.realloc += count(from, Call::realloc_new) + count(from, Call::reallocation) + count(from, Call::realloc_freed);
    totals.calls.aligned += count(from, Call::aligned);
    totals.calls.operator_new += count(from, Call::operator_new);
    totals.calls.operator_new_aligned += count(from, Call::operator_new_aligned);
    totals.calls.free += count(from, Call::free);
    totals.calls.operator_delete += count(from, Call::operator_delete);
    for (unsigned i = 0; i < format::kCountedSizes; i++) {
      sizes[i].allocations += from.allocations[i];
      sizes[i].bytes += from.bytes[i];
    }
    figures.threads.push_back(std::move(thread));
  }
  figures.sizes = rows(sizes);
  figures.events = totals.allocations + totals.reallocations + totals.frees + totals.failed;
  figures.negative = totals.frees > totals.allocations;
  if (!figures.negative) totals.live_blocks = totals.allocations - totals.frees;
  return figures;
}

}  // namespace heapspy::model
