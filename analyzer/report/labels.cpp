#include "analyzer/report/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/site_frames.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kThreadsOfArena = 5;
constexpr std::size_t kThreadsOfSite = 4;
constexpr std::size_t kFormerNames = 5;  // of a thread, the newest
constexpr std::size_t kPlugThread = 16;  // columns of the thread that a plug belongs to

// Limits of size classes are powers of two: "512 B", "64 KiB", "1 GiB".
std::string limit_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit < 6) bytes /= 1024, unit++;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

}  // namespace

std::string thread_label(const ThreadReport& thread) {
  return thread.name.empty() ? fmt::format("(tid {})", thread.tid) : printable(thread.name);
}

std::string thread_label(const Report& report, std::uint32_t id) {
  const ThreadReport* thread = thread_with_id(report, id);
  return thread && !thread->name.empty() ? printable(thread->name) : fmt::format("thread {}", id);
}

std::string group_label(const ThreadReport& thread) {
  return thread.group ? printable(*thread.group) : thread.daemon ? "?" : "";
}

std::string daemon_label(const ThreadReport& thread) { return !thread.daemon ? "" : *thread.daemon ? "yes" : "no"; }

std::string names_label(const ThreadReport& thread) {
  // A thread begins with its creator's name: that it got one of its own is no renaming.
  std::size_t from = thread.names_left_out ? 0 : 1;
  if (thread.names.size() <= from + 1) return "";
  std::string text;
  if (thread.names.size() > from + kFormerNames || thread.names_left_out) {
    from = thread.names.size() - kFormerNames;
    text = fmt::format("{} before, ", findings::count_text(thread.names_left_out + from));
  }
  for (std::size_t i = from; i < thread.names.size(); i++)
    text += fmt::format("{}{} ({})", i > from ? ", " : "", printable(thread.names[i].name),
                        findings::seconds_text(thread.names[i].time_s));
  return text;
}

std::string role_label(const RoleReport& role) {
  if (role.role == "gc") return "garbage collection";
  if (role.role == "compiler") return "JIT compilers";
  if (role.role == "vm") return "the JVM's service";
  return "Java's own";
}

std::string caller_label(const CallerReport& caller) {
  if (!caller.known) return "(call stack not known)";
  if (caller.library.empty()) return "(code made at run time)";
  return printable(caller.library.substr(caller.library.rfind('/') + 1));
}

std::string size_label(const SizeReport& size) { return "<" + limit_text(size.to); }

std::string lifetime_label(const LifetimeReport& life) {
  const auto text = [](double seconds) {
    if (seconds < 0.9999e-3) return fmt::format("{:g} us", seconds * 1e6);
    if (seconds < 0.9999) return fmt::format("{:g} ms", seconds * 1e3);
    return fmt::format("{:g} s", seconds);
  };
  return life.to_s ? "<" + text(*life.to_s) : ">" + text(life.from_s);
}

std::string plug_label(const Report& report, const ArenaReport& arena) {
  if (!arena.plug) return "";
  std::string text = findings::bytes_text(arena.plug->size);
  if (arena.plug->age_s) text += ", " + findings::seconds_text(*arena.plug->age_s);
  return text + ", " + fit(thread_label(report, arena.plug->thread), kPlugThread);
}

std::string threads_label(const Report& report, const ArenaReport& arena) {
  std::vector<std::uint32_t> threads = arena.threads;
  const auto bytes = [&](std::uint32_t id) {
    const ThreadReport* thread = thread_with_id(report, id);
    return thread ? thread->bytes_allocated : 0;
  };
  std::stable_sort(threads.begin(), threads.end(), [&](std::uint32_t a, std::uint32_t b) { return bytes(a) > bytes(b); });
  std::string text;
  for (std::size_t i = 0; i < threads.size() && i < kThreadsOfArena; i++)
    text += (i ? ", " : "") + fit(thread_label(report, threads[i]), 40);
  if (threads.size() > kThreadsOfArena) text += fmt::format(" and {} more", threads.size() - kThreadsOfArena);
  return text;
}

std::string threads_label(const Report& report, const SiteReport& site) {
  std::unordered_set<std::string> names;
  std::string text;
  for (const std::uint32_t id : site.threads) {
    const ThreadReport* thread = thread_with_id(report, id);
    const std::string name = !thread                ? "?"
                             : thread->name.empty() ? fmt::format("tid {}", thread->tid)
                                                    : printable(thread->name);
    if (names.insert(name).second && names.size() <= kThreadsOfSite) text += (text.empty() ? "" : ", ") + name;
  }
  if (names.size() > kThreadsOfSite) text += fmt::format(" and {} more", names.size() - kThreadsOfSite);
  return text;
}

std::string site_label(const SiteReport& site) { return site_text(site.frames); }

std::string temporary_label(const SiteReport& site) {
  return site.temporary ? findings::percent_text(*site.temporary, site.allocations) : "?";
}

}  // namespace heapspy::report
