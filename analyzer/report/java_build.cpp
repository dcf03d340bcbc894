#include "analyzer/report/java_build.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "analyzer/report/rounded.h"
#include "analyzer/report/thread_roles.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using model::SiteHold;
using trace::Reader;
using trace::StackFrame;

constexpr std::string_view kJvm = "libjvm.so", kZip = "libzip.so";
constexpr const char* kRoles[] = {"java", "gc", "compiler", "vm"};

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Asks for memory on behalf of whoever called it.
bool is_plumbing_library(std::string_view path) {
  constexpr std::string_view kBegin[] = {"libc.so",     "libc-",        "ld-linux",   "ld.so",
                                         "libpthread",  "libstdc++.so", "libgcc_s.",  "libheapspy.so",
                                         "libjemalloc", "libtcmalloc",  "libmimalloc"};
  const std::string_view name = file_name(path);
  return std::any_of(std::begin(kBegin), std::end(kBegin), [&](std::string_view each) { return name.starts_with(each); });
}

const std::string& path_of(const StackFrame& frame, const Reader& reader) {
  static const std::string none;
  if (frame.image == trace::kNoImage) return none;
  const std::string& path = reader.stacks().images()[frame.image].path;
  return path.empty() ? reader.process().exe : path;
}

std::string path_of_jvm(const Reader& reader) {
  for (const trace::Image& image : reader.stacks().images())
    if (file_name(image.path) == kJvm) return image.path;
  return "";
}

bool has_jvm(const Reader& reader, const Moment* at) {
  if (!path_of_jvm(reader).empty()) return true;
  return at && std::any_of(at->mappings.begin(), at->mappings.end(),
                           [](const trace::Mapping& mapping) { return file_name(mapping.name) == kJvm; });
}

std::unordered_map<std::uint32_t, const SiteHold*> holds_of(const Moment* at) {
  std::unordered_map<std::uint32_t, const SiteHold*> holds;
  if (at)
    for (const SiteHold& hold : at->heap.sites) holds[index(hold.site)] = &hold;
  return holds;
}

std::vector<CallerReport> callers_of(const Figures& figures, const Moment* at, const Reader& reader) {
  const auto holds = holds_of(at);
  std::map<std::string, CallerReport> callers;
  for (const model::SiteFigures& site : figures.sites) {
    const trace::Stack stack = reader.stacks().stack(site.site);
    const std::string library = calling_library(stack, reader);
    CallerReport& caller = callers[stack.frames.empty() ? "?" : library];
    caller.known = !stack.frames.empty();
    caller.library = library;
    caller.allocations += site.allocations;
    caller.bytes += site.bytes;
    caller.end_live_bytes += site.live_bytes;
    if (!at) continue;
    const auto hold = holds.find(index(site.site));
    caller.live_bytes = caller.live_bytes.value_or(0) + (hold == holds.end() ? 0 : rounded(hold->second->live_bytes));
    caller.live_blocks = caller.live_blocks.value_or(0) + (hold == holds.end() ? 0 : rounded(hold->second->live_blocks));
  }
  std::vector<CallerReport> all;
  for (auto& [path, caller] : callers) all.push_back(std::move(caller));
  std::stable_sort(all.begin(), all.end(), [](const CallerReport& a, const CallerReport& b) {
    const std::uint64_t x = a.live_bytes.value_or(0), y = b.live_bytes.value_or(0);
    return x != y ? x > y : a.bytes > b.bytes;
  });
  return all;
}

}  // namespace

std::string calling_library(const trace::Stack& stack, const Reader& reader) {
  for (std::size_t i = 0; i < stack.frames.size(); i++) {
    const StackFrame& frame = stack.frames[i];
    if (frame.method != trace::kNoMethod || frame.image == trace::kNoImage) return "";
    const std::string& path = path_of(frame, reader);
    if (is_plumbing_library(path)) continue;
    if (!file_name(path).starts_with("libz.so")) return path;
    for (std::size_t above = i + 1; above < stack.frames.size() && stack.frames[above].image != trace::kNoImage; above++)
      if (file_name(path_of(stack.frames[above], reader)) == kZip) return path_of(stack.frames[above], reader);
    return path;
  }
  return "";
}

std::string library_called_by_java(const trace::Stack& stack, const Reader& reader) {
  std::string library;
  for (const StackFrame& frame : stack.frames) {
    if (frame.method != trace::kNoMethod) return library;
    if (const std::string& path = path_of(frame, reader); !path.empty() && !is_plumbing_library(path)) library = path;
  }
  return "";
}

bool is_jdk_library(const std::string& path, const Reader& reader) {
  std::string folder = path_of_jvm(reader);  // JDK/lib/server/libjvm.so
  for (int up = 0; up < 2; up++) folder = folder.substr(0, folder.rfind('/'));
  return !folder.empty() && path.starts_with(folder + "/");
}

void add_java(Report& report, const Figures& figures, const Moment* at, const Reader& reader) {
  if (!has_jvm(reader, at)) return;
  JavaReport& java = report.java.emplace();
  for (ThreadReport& thread : report.threads) {
    // The thread that started the JVM and waits for it: the launcher's.
    const bool launcher = thread.tid == report.process.pid && file_name(report.process.exe) == "java";
    thread.role = std::string(launcher ? "vm" : jvm_role(thread.name));
  }
  for (const char* role : kRoles) {
    RoleReport row;
    row.role = role;
    bool known = true;
    std::uint64_t live = 0;
    for (const ThreadReport& thread : report.threads) {
      if (thread.role != role) continue;
      row.threads++;
      row.allocations += thread.allocations;
      row.bytes_allocated += thread.bytes_allocated;
      known = known && thread.live_bytes;
      live += thread.live_bytes.value_or(0);
    }
    if (known) row.live_bytes = live;
    if (row.threads) java.roles.push_back(std::move(row));
  }
  if (!figures.sites.empty()) java.callers = callers_of(figures, at, reader);
}

}  // namespace heapspy::report
