#include "analyzer/report/site_scope_build.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <vector>

#include "analyzer/findings/quantity.h"
#include "analyzer/model/thread_stats.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::report {

using trace::Reader;

namespace {

// Names are in the stream, so they take a pass of their own. `known`: what they are called, where none is called that.
std::vector<trace::ThreadId> threads_called(const Reader& reader, const std::string& wanted, std::string& known) {
  std::vector<trace::ThreadId> threads;
  for (const trace::ThreadStream& stream : reader.threads())
    if (std::to_string(stream.tid) == wanted) threads.push_back(stream.id);
  if (!threads.empty()) return threads;
  model::ThreadStats stats;
  trace::Timeline(reader, {&stats}).run();
  for (const model::ThreadFigures& thread : stats.figures()) {
    if (::fnmatch(wanted.c_str(), thread.name.c_str(), 0) == 0) threads.push_back(thread.id);
    if (known.size() < 200) known += (known.empty() ? "" : ", ") + thread.name;
  }
  return threads;
}

}  // namespace

std::string site_scope_text(const SiteScope& scope) {
  std::string text;
  if (!scope.thread.empty()) text += " of thread " + scope.thread;
  if (scope.least_bytes) text += fmt::format(" of {} and more", findings::bytes_text(scope.least_bytes));
  if (scope.most_bytes != ~std::uint64_t{0}) text += fmt::format(" of up to {}", findings::bytes_text(scope.most_bytes));
  if (scope.from_s || scope.to_s) text += ", allocated";
  if (scope.from_s) text += " from " + findings::seconds_text(*scope.from_s);
  if (scope.to_s) text += " to " + findings::seconds_text(*scope.to_s);
  return text.empty() ? text : "blocks" + text;
}

model::SiteFilter site_filter(const Reader& reader, const SiteScope& scope) {
  model::SiteFilter filter = site_filter_in_family(reader, scope, 0);
  if (!filter.threads || !filter.threads->empty()) return filter;
  std::string known;
  threads_called(reader, scope.thread, known);
  throw NoSuchThread(fmt::format("no thread is called \"{}\"; there are {}", scope.thread, known));
}

model::SiteFilter site_filter_in_family(const Reader& reader, const SiteScope& scope, double start_s) {
  model::SiteFilter filter;
  std::string known;
  if (!scope.thread.empty()) filter.threads = threads_called(reader, scope.thread, known);
  if (scope.from_s && *scope.from_s > start_s) filter.from = reader.clock().ticks(*scope.from_s - start_s);
  if (scope.to_s && *scope.to_s >= start_s) filter.to = reader.clock().ticks(*scope.to_s - start_s);
  if (scope.to_s && *scope.to_s < start_s) filter.threads.emplace();  // it was not there yet
  filter.least_bytes = scope.least_bytes;
  filter.most_bytes = scope.most_bytes;
  return filter;
}

}  // namespace heapspy::report
