#include "analyzer/report/report.h"

#include <algorithm>
#include <string_view>

#include "analyzer/trace/mallopt_call.h"

namespace heapspy::report {

const ThreadReport* thread_with_id(const Report& report, std::uint32_t id) {
  const auto at = std::lower_bound(report.threads.begin(), report.threads.end(), id,
                                   [](const ThreadReport& thread, std::uint32_t wanted) { return thread.id < wanted; });
  return at != report.threads.end() && at->id == id ? &*at : nullptr;
}

const std::string* setting(const Report& report, const char* name) {
  for (const auto& [key, value] : report.process.environment)
    if (key == name) return &value;
  return nullptr;
}

std::optional<std::string> tunable(const Report& report, const char* name) {
  const std::string* all = setting(report, "GLIBC_TUNABLES");
  if (!all) return std::nullopt;
  std::string_view rest = *all;
  std::optional<std::string> value;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string_view one = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name) value = std::string(one.substr(equals + 1));
  }
  return value;
}

namespace {

// The program's own last call that `decides`: it overrides what was set before start.
template <class Decides>
std::optional<std::string> set_by_program(const Report& report, Decides decides) {
  for (auto mark = report.marks.rbegin(); mark != report.marks.rend(); ++mark)
    if (const auto call = trace::mallopt_call(mark->text); call && decides(*call)) return mark->text;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> arena_max_setting(const Report& report) {
  if (auto own = set_by_program(report, [](const auto& call) { return call.parameter == trace::MalloptCall::kArenaMax; }))
    return own;
  if (const std::string* value = setting(report, "MALLOC_ARENA_MAX")) return "MALLOC_ARENA_MAX=" + *value;
  if (const auto value = tunable(report, "glibc.malloc.arena_max")) return "glibc.malloc.arena_max=" + *value;
  return std::nullopt;
}

std::optional<std::string> trim_threshold_setting(const Report& report) {
  if (auto own = set_by_program(report, [](const auto& call) { return call.ends_dynamic_threshold(); })) return own;
  // Setting any of these switches the dynamic threshold off (glibc malloc/malloc.c, do_set_*: mp_.no_dyn_threshold).
  static constexpr const char* kNames[][2] = {{"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold"},
                                              {"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold"},
                                              {"MALLOC_TOP_PAD_", "glibc.malloc.top_pad"},
                                              {"MALLOC_MMAP_MAX_", "glibc.malloc.mmap_max"}};
  for (const auto& [variable, name] : kNames) {
    if (const std::string* value = setting(report, variable)) return std::string(variable) + "=" + *value;
    if (const auto value = tunable(report, name)) return std::string(name) + "=" + *value;
  }
  return std::nullopt;
}

Bytes trim_prediction(const std::vector<ArenaReport>& arenas) {
  Bytes sum;
  for (const ArenaReport& arena : arenas)
    if (arena.kind == "main" || arena.kind == "secondary") {
      if (!arena.trimmable_bytes) return std::nullopt;
      sum = sum.value_or(0) + *arena.trimmable_bytes;
    }
  return sum;
}

Bytes not_resident(const std::vector<ArenaReport>& arenas) {
  Bytes sum;
  for (const ArenaReport& arena : arenas)
    if (arena.kind == "main" || arena.kind == "secondary") {
      if (!arena.system_bytes || !arena.resident_bytes) return std::nullopt;
      sum = sum.value_or(0) + (*arena.system_bytes - std::min(*arena.system_bytes, *arena.resident_bytes));
    }
  return sum;
}

std::string arena_label(const ArenaReport& arena) {
  if (arena.kind == "main") return "main";
  if (arena.kind == "secondary") return "arena " + std::to_string(arena.id);
  if (arena.kind == "mmapped") return "mapped blocks";
  return arena.kind;
}

}  // namespace heapspy::report
