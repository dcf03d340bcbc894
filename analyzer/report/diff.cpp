#include "analyzer/report/diff.h"

#include "analyzer/report/diff_sites.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace heapspy::report {
namespace {

using Value = std::optional<double>;
using Path = std::vector<std::string>;

Value value(std::uint64_t number) { return static_cast<double>(number); }
Value value(const std::optional<std::uint64_t>& number) { return number ? value(*number) : Value{}; }

// "pool-3-thread-12" as "pool-#-thread-#".
std::string without_digits(const std::string& name) {
  std::string result;
  bool in_number = false;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit)
      result += c;
    else if (!in_number)
      result += '#';
    in_number = digit;
  }
  return result;
}

void add_totals(std::vector<Compared>& to, const Report& before, const Report& after) {
  const auto add = [&](const char* name, Unit unit, Value a, Value b) { to.push_back({{"totals", name}, unit, a, b}); };
  const TotalsReport &a = before.totals, &b = after.totals;
  add("allocations", Unit::count, value(a.allocations), value(b.allocations));
  add("frees", Unit::count, value(a.frees), value(b.frees));
  add("reallocations", Unit::count, value(a.reallocations), value(b.reallocations));
  add("failed", Unit::count, value(a.failed), value(b.failed));
  add("bytes_allocated", Unit::bytes, value(a.bytes_allocated), value(b.bytes_allocated));
  add("live_bytes", Unit::bytes, value(a.live_bytes), value(b.live_bytes));
  add("live_blocks", Unit::count, value(a.live_blocks), value(b.live_blocks));
  add("peak_live_bytes", Unit::bytes, value(a.peak_live_bytes), value(b.peak_live_bytes));
  add("temporary", Unit::count, value(a.temporary), value(b.temporary));
  add("threads", Unit::count, value(before.threads.size()), value(after.threads.size()));
  add("duration_s", Unit::seconds, before.process.duration_s, after.process.duration_s);
}

bool of_kind(const ArenaReport& arena, const std::string& kind) { return kind.empty() || arena.kind == kind; }

// Sum over the arenas of a kind ("" all); unknown where it is unknown of any, or where nothing is known about arenas.
Value sum(const std::vector<ArenaReport>& arenas, const std::string& kind, Bytes ArenaReport::*figure) {
  double total = 0;
  for (const ArenaReport& arena : arenas) {
    if (!of_kind(arena, kind)) continue;
    if (!(arena.*figure)) return std::nullopt;
    total += static_cast<double>(*(arena.*figure));
  }
  return arenas.empty() ? Value{} : total;
}

Value live(const std::vector<ArenaReport>& arenas, const std::string& kind) {
  double total = 0;
  for (const ArenaReport& arena : arenas)
    if (of_kind(arena, kind)) {
      if (!arena.live_bytes) return std::nullopt;
      total += static_cast<double>(*arena.live_bytes);
    }
  return arenas.empty() ? Value{} : total;
}

Value count(const std::vector<ArenaReport>& arenas, const std::string& kind) {
  if (arenas.empty()) return std::nullopt;
  return static_cast<double>(
      std::count_if(arenas.begin(), arenas.end(), [&](const ArenaReport& arena) { return of_kind(arena, kind); }));
}

void add_arenas(std::vector<Compared>& to, const Path& base, const std::vector<ArenaReport>& before,
                const std::vector<ArenaReport>& after) {
  static constexpr std::pair<const char*, Bytes ArenaReport::*> kFigures[] = {
      {"system_bytes", &ArenaReport::system_bytes}, {"resident_bytes", &ArenaReport::resident_bytes},
      {"in_use_bytes", &ArenaReport::in_use_bytes}, {"trimmable_bytes", &ArenaReport::trimmable_bytes},
      {"pinned_bytes", &ArenaReport::pinned_bytes}, {"cached_bytes", &ArenaReport::cached_bytes}};
  for (const std::string kind : {"", "main", "secondary", "mmapped", "other"}) {
    Path path = base;
    if (!kind.empty()) path.push_back(kind);
    const auto add = [&](const char* name, Unit unit, Value a, Value b) {
      Path full = path;
      full.emplace_back(name);
      to.push_back({full, unit, a, b});
    };
    add("count", Unit::count, count(before, kind), count(after, kind));
    add("live_bytes", Unit::bytes, live(before, kind), live(after, kind));
    for (const auto& [name, figure] : kFigures) add(name, Unit::bytes, sum(before, kind, figure), sum(after, kind, figure));
  }
}

void add_rss(std::vector<Compared>& to, const Path& base, const RssReport& before, const RssReport& after) {
  const auto path = [&](std::initializer_list<std::string> more) {
    Path full = base;
    full.insert(full.end(), more);
    return full;
  };
  to.push_back({path({"total_bytes"}), Unit::bytes, value(before.total_bytes), value(after.total_bytes)});
  const auto part = [](const RssReport& rss, const std::string& name) -> Value {
    // Where not every block is in the trace, malloc's memory is one part.
    const std::string of_malloc = "malloc: ";
    bool malloc_is_one = false;
    Value sum = 0.0;
    for (const PartReport& each : rss.parts) {
      if (each.name == name) return value(each.bytes);
      malloc_is_one |= each.name == "malloc";
      if (each.name.starts_with(of_malloc)) *sum += static_cast<double>(each.bytes);
    }
    if (!rss.total_bytes || (malloc_is_one && name.starts_with(of_malloc))) return {};
    // Every part of a known ledger is listed, so one that is missing holds nothing.
    return name == "malloc" ? sum : Value{0};
  };
  Path names;
  for (const RssReport* rss : {&before, &after})
    for (const PartReport& each : rss->parts)
      if (std::find(names.begin(), names.end(), each.name) == names.end()) names.push_back(each.name);
  for (const std::string& name : names)
    to.push_back({path({"parts", name}), Unit::bytes, part(before, name), part(after, name)});
}

struct ThreadSums {
  double count = 0, allocations = 0, frees = 0, bytes_allocated = 0;
  Value live_bytes = 0.0, freed_by_others = 0.0;
};

std::map<std::string, ThreadSums> thread_sums(const Report& report) {
  std::map<std::string, ThreadSums> sums;
  const auto add = [](Value& to, const std::optional<std::uint64_t>& figure) {
    to = to && figure ? Value(*to + static_cast<double>(*figure)) : Value{};
  };
  for (const ThreadReport& thread : report.threads) {
    ThreadSums& to = sums[without_digits(thread.name)];
    to.count += 1;
    to.allocations += static_cast<double>(thread.allocations);
    to.frees += static_cast<double>(thread.frees);
    to.bytes_allocated += static_cast<double>(thread.bytes_allocated);
    add(to.live_bytes, thread.live_bytes);
    add(to.freed_by_others, thread.freed_by_others);
  }
  return sums;
}

std::vector<ComparedThreads> compare_threads(const Report& before, const Report& after) {
  auto a = thread_sums(before), b = thread_sums(after);
  for (const auto& [name, sums] : b) a.try_emplace(name);
  std::vector<ComparedThreads> threads;
  for (const auto& [name, x] : a) {
    const ThreadSums y = b.contains(name) ? b[name] : ThreadSums{};
    threads.push_back({name,
                       {{{"count"}, Unit::count, x.count, y.count},
                        {{"allocations"}, Unit::count, x.allocations, y.allocations},
                        {{"frees"}, Unit::count, x.frees, y.frees},
                        {{"bytes_allocated"}, Unit::bytes, x.bytes_allocated, y.bytes_allocated},
                        {{"live_bytes"}, Unit::bytes, x.live_bytes, y.live_bytes},
                        {{"freed_by_others"}, Unit::count, x.freed_by_others, y.freed_by_others}}});
  }
  const auto change = [](const ComparedThreads& each) { return std::fabs(each.figures[3].change().value_or(0)); };
  std::stable_sort(threads.begin(), threads.end(),
                   [&](const ComparedThreads& x, const ComparedThreads& y) { return change(x) > change(y); });
  return threads;
}

std::vector<ComparedSetting> compare_settings(const Report& before, const Report& after) {
  std::map<std::string, ComparedSetting> all;
  for (const auto& [name, text] : before.process.environment) all[name].before = text;
  for (const auto& [name, text] : after.process.environment) all[name].after = text;
  std::vector<ComparedSetting> settings;
  for (auto& [name, each] : all) {
    // Where a trace went, and who collected it, changes nothing about memory.
    if (name == "HEAPSPY_OUT" || name == "HEAPSPY_COLLECTOR" || each.before == each.after) continue;
    each.name = name;
    settings.push_back(each);
  }
  const auto allocator = [](const Report& report) {
    return report.process.allocator_name + (report.process.allocator_version ? " " + *report.process.allocator_version : "");
  };
  if (allocator(before) != allocator(after)) settings.push_back({"allocator", allocator(before), allocator(after)});
  return settings;
}

}  // namespace

std::optional<double> Compared::change() const {
  if (!before || !after) return std::nullopt;
  return *after - *before;
}

std::string Compared::path_text() const {
  std::string text;
  for (const std::string& each : path) text += (text.empty() ? "" : ".") + each;
  return text;
}

const Compared* Diff::figure(std::string_view path_text) const {
  for (const Compared& each : figures)
    if (each.path_text() == path_text) return &each;
  return nullptr;
}

Diff make_diff(Report before, Report after) {
  Diff diff;
  diff.settings = compare_settings(before, after);
  add_totals(diff.figures, before, after);
  add_arenas(diff.figures, {"arenas"}, before.arenas, after.arenas);
  add_arenas(diff.figures, {"arenas", "end"}, before.arenas_at_end, after.arenas_at_end);
  add_rss(diff.figures, {"rss"}, before.rss, after.rss);
  add_rss(diff.figures, {"rss", "end"}, before.rss_at_end, after.rss_at_end);
  diff.threads = compare_threads(before, after);
  diff.sites = compare_sites(before, after);
  diff.before = std::move(before);
  diff.after = std::move(after);
  return diff;
}

}  // namespace heapspy::report
