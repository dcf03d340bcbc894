#include "tests/report/sample_report.h"
#include "tests/support/amounts.h"

namespace heapspy::report {
namespace {

using test::kMiB;

ThreadReport thread(std::uint32_t id, const char* name, std::uint64_t allocations, std::uint64_t bytes) {
  ThreadReport thread;
  thread.id = id;
  thread.tid = 4240 + id;
  thread.name = name;
  thread.start_s = 0.25 * id;
  if (id > 1) thread.end_s = 12.5;
  thread.allocations = allocations;
  thread.frees = allocations - 4;
  thread.reallocations = 7;
  thread.bytes_allocated = bytes;
  thread.live_bytes = bytes / 100;
  thread.peak_live_bytes = bytes / 10;
  thread.freed_by_others = allocations / 8;
  thread.freed_for_others = 11;
  thread.pinned_bytes = 3 * kMiB;
  thread.sizes = {{16, 32, allocations / 2, 24 * (allocations / 2), 0, 0},
                  {32768, 65536, allocations - allocations / 2, bytes - 24 * (allocations / 2), 0, 0}};
  return thread;
}

ArenaReport arena(std::uint32_t id, const char* kind, std::uint64_t resident, std::uint64_t trimmable) {
  ArenaReport arena;
  arena.id = id;
  arena.kind = kind;
  arena.address = 0x7f0000000000 + (static_cast<std::uint64_t>(id) << 26);
  arena.heaps = 1;
  arena.threads = {1, 2};
  arena.system_bytes = resident + kMiB;
  arena.in_use_bytes = 2 * kMiB;
  arena.live_bytes = kMiB + 512 * 1024;
  arena.live_blocks = 1200;
  arena.resident_bytes = resident;
  arena.trimmable_bytes = trimmable;
  arena.pinned_bytes = kMiB;
  arena.cached_bytes = 64 * 1024;
  arena.fragmentation = 0.75;
  arena.plug = PlugReport{0x7f0000001000, 48, 1, 3.1, trimmable};
  return arena;
}

}  // namespace

Report sample_report() {
  Report report;
  report.trace = {"heapspy.java.4242.hspy", 1, "full", "stamp", 24'000'000, 2'431'118, 0, 12, true, {}, 0, std::nullopt};
  ProcessReport& process = report.process;
  process.pid = 4242;
  process.ppid = 4200;
  process.exe = "/usr/bin/java";
  process.command = {"java", "-Xmx192m", "-jar", "zip_threads.jar"};
  process.host = "box";
  process.start_time = "2026-01-02T03:04:05.000000006Z";
  process.duration_s = 14.2;
  process.end = "exit";
  process.allocator_name = "glibc";
  process.allocator_version = "2.36";
  process.environment = {{"LD_PRELOAD", "libheapspy.so"}};
  process.cpus = 2;
  process.peak_rss_bytes = 760 * kMiB;
  process.glibc_version = "2.36";
  report.totals = {1'215'561,
                   1'215'000,
                   57,
                   1,
                   2'500 * kMiB,
                   31 * kMiB,
                   561,
                   62 * kMiB,
                   9.5,
                   800'000,
                   0,
                   0,
                   {{"malloc", 1'000'000}, {"calloc", 215'561}, {"realloc", 57}, {"free", 1'215'000}}};
  report.at = {9.8, "peak", 60 * kMiB, {}, {}, false};
  report.threads = {thread(1, "main", 1000, 40 * kMiB), thread(2, "zip-storm-worker-with-a-long-name-13", 14'204, 212 * kMiB)};
  report.sizes = {{16, 32, 7602, 182'448, 10, 240}, {32768, 65536, 7602, 252 * kMiB, 3, 150'000}};
  report.lifetimes = {{0, 1e-5, 9000, 90'000}, {1e-5, 1e-4, 0, 0}, {1e-4, 1e-3, 3000, 4 * kMiB}, {1e5, std::nullopt, 10, 480}};
  report.arenas = {arena(1, "main", 11 * kMiB, 5 * kMiB), arena(2, "secondary", 40 * kMiB, 36 * kMiB)};
  report.rss.total_bytes = 752 * kMiB;
  report.rss.parts = {{"malloc: live", 31 * kMiB},
                      {"malloc: rounding and headers", 2 * kMiB},
                      {"malloc: free, pinned", 88 * kMiB},
                      {"malloc: free, trimmable", 375 * kMiB},
                      {"malloc: free, cached", 11 * kMiB},
                      {"Java heap", 148 * kMiB},
                      {"shared memory", 0},
                      {"other", 97 * kMiB}};
  report.end_at = {14.2, "end", 31 * kMiB, {}, {}, false};
  report.arenas_at_end = {arena(1, "main", 9 * kMiB, 4 * kMiB)};
  report.rss_at_end.total_bytes = 517 * kMiB;
  report.rss_at_end.parts = {{"malloc: live", 1 * kMiB}, {"malloc: free, trimmable", 400 * kMiB}, {"other", 116 * kMiB}};
  report.timeline = {{0.1, 1 * kMiB, std::nullopt, std::nullopt, std::nullopt},
                     {9.5, 62 * kMiB, std::nullopt, std::nullopt, std::nullopt},
                     {9.8, 60 * kMiB, 500 * kMiB, 752 * kMiB, 88 * kMiB},
                     {14.2, 31 * kMiB, 480 * kMiB, 517 * kMiB, 70 * kMiB}};
  findings::Finding retained;
  retained.kind = "retained";
  retained.title = "Retained";
  retained.severity = findings::Severity::high;
  retained.bytes = 375 * kMiB;
  retained.moment = "at the RSS peak (9.8 s)";
  retained.text = "Whole free pages that glibc keeps, in 16 arenas.";
  retained.fix = "malloc_trim(0) at that moment";
  retained.fix_saves_bytes = 375 * kMiB;
  retained.cost = "page faults";
  retained.to_try = "MALLOC_TRIM_THRESHOLD_=131072, set before start";
  retained.evidence = {{"trimmable_bytes", std::uint64_t{375 * kMiB}}, {"arenas", std::uint64_t{16}}};
  findings::Finding growth;
  growth.kind = "arena_growth";
  growth.title = "Arena growth";
  growth.severity = findings::Severity::medium;
  growth.bytes = 210 * kMiB;
  growth.part_of = {"retained", "pinned"};
  growth.moment = "at the end (14.2 s)";
  growth.text = "Threads named zip-storm-worker-# use little.";
  growth.evidence = {{"thread_names", std::vector<std::string>{"zip-storm-worker-#"}}, {"ratio", 0.5}, {"set", false}};
  report.findings = {retained, growth};
  return report;
}

}  // namespace heapspy::report
