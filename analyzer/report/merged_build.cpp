#include "analyzer/report/merged_build.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "analyzer/model/heap_model.h"
#include "analyzer/report/build.h"
#include "analyzer/report/family.h"
#include "analyzer/report/family_sites.h"
#include "analyzer/report/printable.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kDamageListed = 1000;
constexpr std::size_t kNameColumns = 60;
// Generations of forks that stand around each other, each with its table of live blocks. Those beyond are read on their own.
constexpr int kDeepest = 100;
// A child's first event comes this long after the fork at most, where the trace does not say when the process began.
constexpr double kUsualDelaySeconds = 0.02;
constexpr double kJiffySeconds = 0.01;  // USER_HZ is 100 on every architecture that Linux runs glibc on

template <typename T>
void add(std::optional<T>& to, const std::optional<T>& figure) {
  to = to && figure ? std::optional<T>(*to + *figure) : std::nullopt;
}

// Errors of independent samples; of the peak of the sum nothing is known.
void add_errors(std::optional<StandardErrorReport>& to, const std::optional<StandardErrorReport>& from) {
  if (!from) return;
  if (!to) to.emplace();
  for (const auto figure :
       {&StandardErrorReport::allocations, &StandardErrorReport::frees, &StandardErrorReport::reallocations,
        &StandardErrorReport::bytes_allocated, &StandardErrorReport::live_bytes, &StandardErrorReport::live_blocks})
    (*to).*figure = std::hypot((*to).*figure, (*from).*figure);
}

void add(TotalsReport& to, const TotalsReport& from) {
  add_errors(to.standard_error, from.standard_error);
  to.allocations += from.allocations;
  to.frees += from.frees;
  to.reallocations += from.reallocations;
  to.failed += from.failed;
  to.bytes_allocated += from.bytes_allocated;
  add(to.live_bytes, from.live_bytes);
  add(to.live_blocks, from.live_blocks);
  add(to.temporary, from.temporary);
  add(to.unknown_frees, from.unknown_frees);
  add(to.inherited_frees, from.inherited_frees);
  for (const auto& [name, calls] : from.calls) {
    const auto known =
        std::find_if(to.calls.begin(), to.calls.end(), [&name = name](const auto& each) { return each.first == name; });
    if (known == to.calls.end())
      to.calls.emplace_back(name, calls);
    else
      known->second += calls;
  }
}

// Rows by `from`; both lists are sorted by it.
template <typename Row, typename Merge>
void add_rows(std::vector<Row>& to, const std::vector<Row>& rows, Merge merge) {
  const auto before = [](const Row& a, const Row& b) { return a.from < b.from; };
  for (const Row& row : rows) {
    const auto at = std::lower_bound(to.begin(), to.end(), row, before);
    if (at == to.end() || at->from != row.from)
      to.insert(at, row);
    else
      merge(*at, row);
  }
}

void add_size(SizeReport& to, const SizeReport& row) {
  to.allocations += row.allocations;
  to.bytes += row.bytes;
  add(to.live_blocks, row.live_blocks);
  add(to.live_bytes, row.live_bytes);
}

// "full" where all say so, else "several".
void agree(std::string& to, const std::string& word, bool first) {
  if (first)
    to = word;
  else if (to != word)
    to = "several";
}

// The command line without the folder of its program.
std::string name_of(const ProcessReport& process) {
  std::vector<std::string> words = process.command;
  if (words.empty()) words.push_back(process.exe);
  words[0].erase(0, words[0].rfind('/') + 1);
  return fit(command_text(words), kNameColumns);
}

class Builder {
 public:
  Builder(Family family, const MergeOptions& options) : family_(std::move(family)), options_(options) {
    done_.resize(family_.members.size());
    merged_.totals.live_bytes = merged_.totals.live_blocks = merged_.totals.temporary = 0;
    merged_.totals.unknown_frees = merged_.totals.inherited_frees = 0;
  }

  MergedReport build() {
    for (std::size_t i = 0; i < family_.members.size(); i++)
      if (!family_.members[i].has_parent) read(i, nullptr, std::nullopt, 0);
    // Those whose parent's trace could not be read, or that stand too deep.
    for (std::size_t i = 0; i < family_.members.size(); i++)
      if (!done_[i]) read(i, nullptr, std::nullopt, 0);
    return finish();
  }

 private:
  // When the children were forked, in ticks of `parent`; `order` gets their numbers in that order.
  std::vector<model::Fork> forks_of(const Member& parent, const trace::Clock& clock, std::vector<std::size_t>& order) const {
    std::vector<std::pair<model::Fork, std::size_t>> forks;
    for (const std::size_t number : parent.children) {
      const Member& child = family_.members[number];
      const double since_start =
          (static_cast<double>(child.start_monotonic_ns) - static_cast<double>(parent.start_monotonic_ns)) * 1e-9;
      model::Fork fork;
      if (child.tick_kind == parent.tick_kind && child.origin >= parent.origin)
        fork.at = child.tick_kind == format::TickKind::tsc4 ? (child.origin - parent.origin) / 4 : child.origin - parent.origin;
      else
        fork.at = since_start > 0 ? clock.ticks(since_start) : 0;
      double delay = kUsualDelaySeconds;
      const double started = static_cast<double>(child.start_jiffies) * kJiffySeconds;
      const double first_event = static_cast<double>(child.start_monotonic_ns) * 1e-9;
      if (child.start_jiffies && started <= first_event) delay = first_event - started;
      const trace::Tick ticks = clock.ticks(delay);
      fork.earliest = fork.at > ticks ? fork.at - ticks : 0;
      forks.emplace_back(fork, number);
    }
    std::stable_sort(forks.begin(), forks.end(), [](const auto& a, const auto& b) { return a.first.at < b.first.at; });
    std::vector<model::Fork> result;
    for (const auto& [fork, number] : forks) result.push_back(fork), order.push_back(number);
    return result;
  }

  double since_first(const Member& member) const {
    return static_cast<double>(member.start_realtime_ns - family_.members[0].start_realtime_ns) * 1e-9;
  }

  void read(std::size_t number, const model::HeapAtFork* parent, std::optional<std::uint32_t> parent_pid, int depth) try {
    const Member& member = family_.members[number];
    const trace::Reader reader(member.path);
    done_[number] = true;
    model::ModelOptions options;
    options.parent = parent;
    options.family = &threads_;
    options.process = static_cast<std::uint32_t>(number);
    options.sites = site_filter_in_family(reader, options_.scope, since_first(member));
    has_thread_ = has_thread_ || !options.sites.threads || !options.sites.threads->empty();
    std::vector<std::size_t> children;
    if (depth < kDeepest) options.forks = forks_of(member, reader.clock(), children);
    options.at_fork = [&](std::size_t i, const model::HeapAtFork& heap) { read(children[i], &heap, member.pid, depth + 1); };
    const model::Figures figures = model::build_figures(reader, options);
    const model::Moment* peak = figures.at(model::Why::peak);
    sites_.add(reader, figures, options_.at_end || !peak ? figures.at(model::Why::end) : peak);
    BuildOptions build;
    build.at = options_.at_end ? BuildOptions::At::end : BuildOptions::At::peak;
    build.verdicts_at_moment = options_.at_end;
    build.sites.most = 0;
    Report report = build_report(reader, figures, build);
    if (is_among_largest(peak_rss(report).value_or(report.totals.peak_live_bytes.value_or(0)))) {
      build.sites.most = 1;  // verdicts name call stacks
      build.sites.search = options_.sites.search;
      build.sites.suppressions = options_.sites.suppressions;
      report = build_report(reader, figures, build);
    }
    take(std::move(report), figures, number, parent_pid);
    if (options_.progress) options_.progress(static_cast<double>(merged_.processes.size()) / static_cast<double>(done_.size()));
  } catch (const trace::Unreadable& reason) {
    done_[number] = true;
    const std::string& path = family_.members[number].path;
    family_.unreadable.push_back({path, reason_of(reason, path)});
  }

  InheritedReport inherited_report(const model::InheritedFigures& from) const {
    InheritedReport to;
    to.blocks_at_fork = from.blocks_at_fork;
    to.bytes_at_fork = from.bytes_at_fork;
    to.frees = from.frees;
    to.bytes_freed = from.bytes_freed;
    to.reallocations = from.reallocations;
    to.unmatched_frees = from.unmatched_frees;
    to.live_blocks = from.live_blocks;
    to.live_bytes = from.live_bytes;
    for (const auto& each : from.threads) {
      const model::FamilyThreads::Thread& thread = threads_[each.id];
      to.threads.push_back({family_.members[thread.process].pid, thread.name, each.frees, each.bytes});
    }
    return to;
  }

  // Adds one process's report to the sums and keeps a row of it.
  void take(Report report, const model::Figures& figures, std::size_t number, std::optional<std::uint32_t> parent_pid) {
    const bool first = merged_.processes.empty();
    ProcessRow row;
    row.trace = report.trace.path;
    row.mode = report.trace.mode;
    row.pid = report.process.pid;
    row.ppid = report.process.ppid;
    row.exe = report.process.exe;
    row.name = name_of(report.process);
    row.start_realtime_ns = family_.members[number].start_realtime_ns;
    row.start_time = report.process.start_time;
    row.duration_s = report.process.duration_s;
    row.end = report.process.end;
    row.forked = report.process.forked;
    row.parent_pid = parent_pid;
    row.size_bytes = report.trace.size_bytes;
    row.events = report.trace.events;
    row.lost_events = report.trace.lost_events;
    row.damage = report.trace.damage.size() + report.trace.damage_left_out;
    row.threads = report.threads.size();
    row.complete = report.trace.complete;
    row.totals = report.totals;
    row.peak_rss_bytes = peak_rss(report);
    row.end_rss_bytes = report.rss_at_end.total_bytes;
    row.private_dirty_bytes = private_dirty(figures);
    if (figures.inherited) row.inherited = inherited_report(*figures.inherited);

    agree(merged_.trace.mode, report.trace.mode, first);
    agree(merged_.trace.clock, report.trace.clock, first);
    agree(merged_.stacks.trace.stacks, report.trace.stacks, first);
    merged_.trace.format_version = std::max(merged_.trace.format_version, report.trace.format_version);
    merged_.trace.size_bytes += report.trace.size_bytes;
    merged_.trace.events += report.trace.events;
    merged_.trace.lost_events += report.trace.lost_events;
    merged_.trace.reordered_events += report.trace.reordered_events;
    merged_.trace.complete = merged_.trace.complete && report.trace.complete;
    if (!report.trace.damage.empty()) {
      if (merged_.damaged.size() < kDamageListed)
        merged_.damaged.push_back(
            {report.trace.path, fmt::format("{} at byte {}", report.trace.damage[0].reason, report.trace.damage[0].offset)});
      else
        merged_.trace.damage_left_out++;
    }
    add(merged_.totals, report.totals);
    for (const ThreadReport& thread : report.threads) add_thread(thread, number);
    add_rows(merged_.sizes, report.sizes, add_size);
    add_lifetimes(report.lifetimes);
    merged_.processes.push_back(std::move(row));
    keep_findings(std::move(report.findings));
  }

  // Not by which pages it was read (a small process's are counted without it): then nothing is known.
  static Bytes private_dirty(const model::Figures& figures) {
    const model::Moment* moment = figures.at(model::Why::peak);
    if (!moment) moment = figures.at(model::Why::end);
    std::uint64_t bytes = 0;
    if (moment)
      for (const trace::Mapping& mapping : moment->mappings) bytes += mapping.private_dirty_bytes;
    return bytes ? Bytes(bytes) : std::nullopt;
  }

  void add_thread(const ThreadReport& thread, std::size_t process) {
    const auto [at, added] = by_name_.emplace(thread.name, merged_.threads.size());
    if (added) {
      merged_.threads.emplace_back();
      NamedThreads& fresh = merged_.threads.back();
      fresh.name = thread.name;
      fresh.live_bytes = fresh.freed_by_others = fresh.freed_for_others = 0;
      newest_process_.push_back(~std::size_t{0});
    }
    NamedThreads& to = merged_.threads[at->second];
    to.threads++;
    if (newest_process_[at->second] != process) to.processes++;
    newest_process_[at->second] = process;
    to.allocations += thread.allocations;
    to.frees += thread.frees;
    to.reallocations += thread.reallocations;
    to.failed += thread.failed;
    to.bytes_allocated += thread.bytes_allocated;
    add(to.live_bytes, thread.live_bytes);
    add(to.freed_by_others, thread.freed_by_others);
    add(to.freed_for_others, thread.freed_for_others);
    add_rows(to.sizes, thread.sizes, add_size);
  }

  void add_lifetimes(const std::vector<LifetimeReport>& rows) {
    for (const LifetimeReport& row : rows) {
      const auto at = std::lower_bound(merged_.lifetimes.begin(), merged_.lifetimes.end(), row,
                                       [](const auto& a, const auto& b) { return a.from_s < b.from_s; });
      if (at == merged_.lifetimes.end() || at->from_s != row.from_s) {
        merged_.lifetimes.insert(at, row);
      } else {
        at->blocks += row.blocks;
        at->bytes += row.bytes;
      }
    }
  }

  static Bytes peak_rss(const Report& report) {
    Bytes most = report.process.peak_rss_bytes;
    if (report.rss.total_bytes) most = std::max(most.value_or(0), *report.rss.total_bytes);
    return most;
  }

  // Of those that were read so far.
  bool is_among_largest(std::uint64_t weight) {
    largest_.insert(weight);
    if (largest_.size() <= options_.processes_judged) return true;
    const bool is_smallest = weight <= *largest_.begin();
    largest_.erase(largest_.begin());
    return !is_smallest;
  }

  static std::uint64_t weight(const ProcessRow& row) {
    return row.peak_rss_bytes.value_or(row.totals.peak_live_bytes.value_or(0));
  }

  // Of the process added last; the smallest of those that are kept makes room.
  void keep_findings(std::vector<findings::Finding> found) {
    if (found.empty()) return;
    merged_.findings.push_back({merged_.processes.size() - 1, std::move(found)});
    if (merged_.findings.size() <= options_.processes_judged) return;
    merged_.findings.erase(std::min_element(
        merged_.findings.begin(), merged_.findings.end(), [this](const ProcessFindings& a, const ProcessFindings& b) {
          return weight(merged_.processes[a.process]) < weight(merged_.processes[b.process]);
        }));
  }

  MergedReport finish() {
    for (Family::LeftOut& each : family_.unreadable) merged_.unreadable.push_back({each.path, each.reason});
    for (Family::LeftOut& each : family_.copies) merged_.copies.push_back({each.path, each.reason});
    if (!merged_.unreadable.empty()) merged_.trace.complete = false;
    if (merged_.processes.empty()) return std::move(merged_);
    std::stable_sort(merged_.findings.begin(), merged_.findings.end(), [this](const auto& a, const auto& b) {
      return weight(merged_.processes[a.process]) > weight(merged_.processes[b.process]);
    });
    // Children were read before their parents: by start, and what refers to them with them.
    std::vector<std::size_t> order(merged_.processes.size()), place(order.size());
    for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return merged_.processes[a].start_realtime_ns < merged_.processes[b].start_realtime_ns;
    });
    std::vector<ProcessRow> sorted;
    for (std::size_t i = 0; i < order.size(); i++) {
      place[order[i]] = i;
      sorted.push_back(std::move(merged_.processes[order[i]]));
    }
    merged_.processes = std::move(sorted);
    for (ProcessFindings& each : merged_.findings) each.process = place[each.process];
    double last = 0;
    bool known = true;
    if (!has_thread_)
      throw NoSuchThread(
          fmt::format("no thread of these {} processes is called \"{}\"; heapspy report … --by thread lists them", order.size(),
                      options_.scope.thread));
    for (const ProcessRow& row : merged_.processes) {
      known = known && row.duration_s;
      const double since = static_cast<double>(row.start_realtime_ns - merged_.processes[0].start_realtime_ns) * 1e-9;
      last = std::max(last, since + row.duration_s.value_or(0));
    }
    if (known) merged_.duration_s = last;
    merged_.stacks.site_scope = site_scope_text(options_.scope);
    merged_.stacks.at.why = options_.at_end ? kEachEnd : kEachPeak;
    sites_.spell(merged_.stacks, options_.sites);
    std::stable_sort(merged_.threads.begin(), merged_.threads.end(),
                     [](const NamedThreads& a, const NamedThreads& b) { return a.bytes_allocated > b.bytes_allocated; });
    return std::move(merged_);
  }

  Family family_;
  const MergeOptions& options_;
  std::vector<bool> done_;
  model::FamilyThreads threads_;
  MergedReport merged_;
  FamilySites sites_;
  bool has_thread_ = false;                               // that was asked for
  std::multiset<std::uint64_t> largest_;                  // weights
  std::unordered_map<std::string, std::size_t> by_name_;  // index into merged_.threads
  std::vector<std::size_t> newest_process_;               // by the same index
};

}  // namespace

MergedReport build_merged(const std::vector<std::string>& traces, const std::string& path, const MergeOptions& options) {
  MergedReport merged = Builder(find_family(traces), options).build();
  merged.path = merged.trace.path = path;
  if (!merged.processes.empty()) return merged;
  const std::string first = merged.unreadable.empty() ? "" : merged.unreadable[0].trace + ": " + merged.unreadable[0].reason;
  throw trace::Unreadable(fmt::format("{}: none of {} traces can be read; the first is {}", path, traces.size(), first));
}

}  // namespace heapspy::report
