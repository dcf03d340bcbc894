#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <sstream>

#include "analyzer/heap/glibc_version.h"
#include "analyzer/process/allocator_library.h"
#include "analyzer/process/cpu_quota.h"
#include "analyzer/process/recorder_link.h"
#include "analyzer/process/stopped_process.h"
#include "analyzer/report/inspection.h"
#include "analyzer/report/inspection_ledger.h"
#include "analyzer/report/inspection_trace.h"

namespace heapspy::report {
namespace {

using Clock = std::chrono::steady_clock;
using heap::ChunkKind;

constexpr std::uint64_t kWorthShowing = 1u << 20;
// A thread that stood inside malloc may leave a list or a heap amid a change (thread caches are changed without a lock): then
// once more; small heaps more often.
constexpr std::uint32_t kFewAttempts = 3, kMostAttempts = 10;
constexpr double kShortPauses = 0.1;  // seconds, together
constexpr std::uint64_t kMostPrepared = 8ull << 30;
constexpr std::size_t kPinRows = 8;
constexpr std::size_t kSmapsWhileStopped = 4000;  // mappings; of more, reading smaps would be most of the pause

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "";
}

// Settings that bear on memory, as a trace keeps them.
std::vector<std::pair<std::string, std::string>> settings_of(const std::string& environ) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (std::size_t at = 0; at < environ.size();) {
    const std::size_t end = std::min(environ.find('\0', at), environ.size());
    const std::string each = environ.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = each.substr(0, equals);
    if (name.starts_with("MALLOC_") || name == "GLIBC_TUNABLES" || name == "LD_PRELOAD" || name.starts_with("HEAPSPY_"))
      settings.emplace_back(name, each.substr(equals + 1));
  }
  return settings;
}

// Field 22 of /proc/PID/stat: ticks since boot.
void set_start(const process::LiveProcess& target, ProcessReport& process) {
  const std::string stat = target.try_text("stat").value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 19; i++) fields >> skipped;
  std::uint64_t ticks = 0;
  timespec now{}, real{};
  if (!(fields >> ticks) || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0 || ::clock_gettime(CLOCK_REALTIME, &real) != 0) return;
  const double since_boot = static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double age = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - since_boot;
  process.duration_s = std::max(0.0, age);
  const auto start =
      static_cast<std::time_t>(static_cast<double>(real.tv_sec) + static_cast<double>(real.tv_nsec) * 1e-9 - age);
  std::tm utc{};
  if (::gmtime_r(&start, &utc) != nullptr)
    process.start_time = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

ProcessReport process_of(const process::LiveProcess& target) {
  ProcessReport process;
  const process::Status status = target.status();
  process.pid = static_cast<std::uint32_t>(target.pid());
  process.ppid = status.parent.value_or(0);
  process.exe = target.link("exe");
  process.command = target.command();
  if (process.command.empty()) process.command.push_back(status.name);
  process.host = host_name();
  process.end = "running";
  process.cpus = process::cpus_allowed(target);
  process.cpu_quota = process::cpu_quota(target);
  process.peak_rss_bytes = status.peak_rss_bytes;
  process.environment = settings_of(target.try_text("environ").value_or(""));
  set_start(target, process);
  return process;
}

ProcessReport process_of(const process::CoreFile& core) {
  ProcessReport process;
  process.pid = static_cast<std::uint32_t>(core.pid());
  process.ppid = static_cast<std::uint32_t>(core.parent());
  process.exe = core.executable();
  std::istringstream words(core.command());
  for (std::string word; words >> word;) process.command.push_back(word);
  process.end = core.signal() ? "killed" : "running";  // gcore leaves the process as it was
  return process;
}

InspectedArena arena_of(const heap::TakenApart& apart, std::size_t index) {
  const heap::ArenaAccount& account = apart.account.arenas[index];
  InspectedArena arena;
  arena.kind = index == 0 ? "main" : "secondary";
  arena.address = apart.copy.arenas[index].address;
  arena.heaps = account.heaps;
  arena.system_bytes = account.system_bytes;
  arena.resident_bytes = account.resident_bytes;
  arena.proven = apart.arena_proven(index);
  if (!arena.proven) return arena;
  arena.in_use_bytes = account.chunks.in_use();
  arena.blocks = account.chunks.blocks(ChunkKind::in_use);
  arena.top_bytes = account.chunks.of(ChunkKind::top);
  arena.tcache_bytes = account.chunks.of(ChunkKind::cached);
  arena.fastbin_bytes = account.chunks.of(ChunkKind::fast);
  arena.unsorted_bytes = account.chunks.of(ChunkKind::unsorted);
  arena.small_bytes = account.chunks.of(ChunkKind::small);
  arena.large_bytes = account.chunks.of(ChunkKind::large);
  arena.trimmable_at_most_bytes = account.trimmable_at_most;
  arena.plug = account.plug;
  if (account.resident) {
    arena.in_use_resident_bytes = account.resident->in_use;
    arena.trimmable_bytes = account.resident->trimmable;
    arena.pinned_bytes = account.resident->pinned;
    arena.cached_bytes = account.resident->cached;
    arena.secondary_top_bytes = account.resident->secondary_top;
  }
  return arena;
}

InspectedArena mapped_of(const heap::TakenApart& apart) {
  const heap::MappedAccount& mapped = apart.account.mapped;
  InspectedArena arena;
  arena.kind = "mmapped";
  arena.system_bytes = arena.in_use_bytes = mapped.bytes;
  arena.blocks = mapped.blocks;
  arena.resident_bytes = arena.in_use_resident_bytes = mapped.resident_bytes;
  arena.trimmable_at_most_bytes = 0;
  for (Bytes InspectedArena::*none :
       {&InspectedArena::top_bytes, &InspectedArena::tcache_bytes, &InspectedArena::fastbin_bytes,
        &InspectedArena::unsorted_bytes, &InspectedArena::small_bytes, &InspectedArena::large_bytes})
    arena.*none = 0;
  if (mapped.resident_bytes) arena.trimmable_bytes = arena.pinned_bytes = arena.cached_bytes = arena.secondary_top_bytes = 0;
  return arena;
}

void add_arenas(Inspection& inspection) {
  const heap::TakenApart& apart = *inspection.heap;
  for (std::size_t i = 0; i < apart.copy.arenas.size(); i++) {
    if (i == 0 && apart.account.arenas[0].heaps == 0 && apart.account.arenas[0].system_bytes == 0) continue;  // never used
    inspection.arenas.push_back(arena_of(apart, i));
  }
  std::sort(inspection.arenas.begin(), inspection.arenas.end(), [](const InspectedArena& a, const InspectedArena& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.address < b.address;  // "main" comes before "secondary"
  });
  if (apart.account.mapped.blocks) inspection.arenas.push_back(mapped_of(apart));
  std::map<std::uint64_t, InspectedArena*> by_address;
  for (std::size_t i = 0; i < inspection.arenas.size(); i++) {
    inspection.arenas[i].id = static_cast<std::uint32_t>(i + 1);
    if (inspection.arenas[i].address) by_address[*inspection.arenas[i].address] = &inspection.arenas[i];
  }
  std::map<pid_t, InspectedThread> threads;
  for (const heap::ThreadArena& each : apart.walk.thread_arenas) {
    threads[each.tid].arena = each.arena;
    if (const auto arena = by_address.find(each.arena); arena != by_address.end())
      arena->second->threads.push_back(static_cast<std::uint32_t>(each.tid));
  }
  for (const heap::ThreadCache& cache : apart.walk.caches) {
    if (cache.tid == 0) continue;
    threads[cache.tid].cached_blocks = cache.blocks;
    threads[cache.tid].cached_bytes = cache.bytes;
  }
  for (auto& [tid, thread] : threads) {
    thread.tid = static_cast<std::uint32_t>(tid);
    inspection.threads.push_back(thread);
  }
}

void finish(Inspection& inspection) {
  if (!inspection.heap) return;
  add_arenas(inspection);
  inspection.trim_prediction_bytes = inspection.sum(&InspectedArena::trimmable_bytes);
  if (inspection.locked) {
    inspection.trim_prediction_bytes.reset();
    inspection.notes.emplace_back(
        "the process has locked its memory (mlockall): malloc_trim returns little more than the free end of the main heap, "
        "which is "
        "not predicted");
  }
  inspection.trim_at_most_bytes = inspection.sum(&InspectedArena::trimmable_at_most_bytes);
  inspection.pinned_by_size = heap::pins_by_size(*inspection.heap, kPinRows);
  for (const std::string& problem : inspection.heap->copy.problems) inspection.notes.push_back(problem);
  if (!inspection.heap->layout_sure)
    inspection.notes.push_back(fmt::format("several versions of glibc agree with all that was seen; read as 2.{}",
                                           inspection.heap->walk.layout.minor));
}

std::string version_text(const heap::TakenApart& apart, std::optional<unsigned> minor) {
  if (minor) return fmt::format("2.{}", *minor);
  const heap::GlibcLayout& layout = apart.walk.layout;
  return layout.minor == layout.newest_minor ? fmt::format("2.{}", layout.minor)
         : layout.newest_minor == 99         ? fmt::format("2.{} or later", layout.minor)
                                             : fmt::format("2.{} to 2.{}", layout.minor, layout.newest_minor);
}

// The version is read from the file that malloc is part of, where that is still the file that was mapped.
std::optional<unsigned> minor_of(const process::Target& target, const heap::ArenaRing& ring) {
  for (const process::Mapping& each : target.mappings())
    if (each.name == ring.library) {
      const std::string path = target.file_of(each);
      return path.empty() ? std::nullopt : heap::glibc_minor_of(path);
    }
  return std::nullopt;
}

// Beside another allocator glibc's malloc usually has next to nothing; a program may use both, though (Rust and C).
void set_allocator(Inspection& inspection, const std::string& other, std::optional<unsigned> minor) {
  std::uint64_t held = 0;
  if (inspection.heap)
    for (const heap::ArenaAccount& arena : inspection.heap->account.arenas) held += arena.system_bytes;
  inspection.runs_glibc = other.empty();
  inspection.process.allocator_name = other.empty() ? (inspection.heap ? "glibc" : "unknown") : other;
  if (!other.empty() && held < kWorthShowing) inspection.heap.reset();
  if (!inspection.heap) return;
  if (!other.empty())
    inspection.notes.push_back(
        fmt::format("{} is in the program too; its memory is in other, and the arenas are glibc's", other));
  const std::string version = version_text(*inspection.heap, minor);
  inspection.process.glibc_version = version;
  if (other.empty()) inspection.process.allocator_version = version;
}

void refuse_32_bit(const process::LiveProcess& target) {
  const std::string path = fmt::format("/proc/{}/exe", target.pid());
  if (process::elf_class_of(path) == process::ElfClass::bits32)
    throw process::TargetError(process::TargetError::Reason::refused,
                               fmt::format("process {} is a 32-bit program; only 64-bit ones are taken apart (heapspy maps {} "
                                           "shows its mappings)",
                                           target.pid(), target.pid()));
}

}  // namespace

Bytes Inspection::sum(Bytes InspectedArena::*figure) const {
  std::uint64_t total = 0;
  for (const InspectedArena& arena : arenas) {
    if (!(arena.*figure)) return std::nullopt;
    total += *(arena.*figure);
  }
  return heap ? Bytes(total) : std::nullopt;
}

std::string arena_label(const InspectedArena& arena) {
  if (arena.kind == "main") return "main";
  if (arena.kind == "mmapped") return "mapped blocks";
  return fmt::format("arena {}", arena.id);
}

Inspection inspect_process(const process::LiveProcess& target, bool join) {
  Inspection inspection;
  RawMoment moment;
  inspection.process = process_of(target);
  refuse_32_bit(target);
  std::string smaps;
  process::Evidence evidence;
  std::string other;
  double stood_still = 0;
  for (;; inspection.attempts++) {
    smaps = target.text("smaps");
    const auto room = std::make_shared<heap::CopyRoom>(
        std::min(kMostPrepared, heap::expected_copy_bytes(process::parse_mappings(smaps).mappings)));
    const double cpu_begin = cpu_seconds();
    process::StoppedProcess stopped(target);
    auto copy = heap::copy_heaps(stopped, room);
    if (stopped.mappings().size() <= kSmapsWhileStopped) smaps = target.text("smaps");
    evidence.stack_pointers.clear();
    for (const process::ThreadState& thread : stopped.threads()) evidence.stack_pointers.push_back(thread.stack_pointer);
    moment = RawMoment::now();
    inspection.pause_s = stopped.release();
    const auto begin = Clock::now();
    const double walk_cpu_begin = cpu_seconds();
    inspection.pause_cpu_s = walk_cpu_begin - cpu_begin;
    other = process::allocator_library(stopped.mappings(), fmt::format("/proc/{}/exe", target.pid()));
    if (!copy) {
      set_allocator(inspection, other, std::nullopt);
      break;
    }
    inspection.copied_bytes = copy->copied_bytes;
    const std::optional<unsigned> minor = minor_of(stopped, copy->ring);
    inspection.heap = heap::take_apart(std::move(*copy), minor);
    set_allocator(inspection, other, minor);
    inspection.walk_s = seconds_since(begin);
    inspection.walk_cpu_s = cpu_seconds() - walk_cpu_begin;
    stood_still += *inspection.pause_s;
    if (inspection.heap->proven() || inspection.attempts == kMostAttempts ||
        (inspection.attempts >= kFewAttempts && stood_still > kShortPauses))
      break;
  }
  inspection.other_counts = process::allocator_counts(target, process::parse_mappings(smaps).mappings, other);
  inspection.locked = target.status().is_locked();
  finish(inspection);
  if (join) join_trace(inspection, process::trace_of(target), moment);
  add_rss(inspection, process::parse_mappings(smaps).mappings, std::move(evidence));
  return inspection;
}

void look_again(Inspection& inspection, heap::HeapCopy copy) {
  inspection.heap = heap::take_apart(std::move(copy), inspection.heap->walk.layout.minor);
  inspection.arenas.clear();
  inspection.threads.clear();
  inspection.notes.clear();
  finish(inspection);
}

Inspection inspect_core(const process::CoreFile& core) {
  Inspection inspection;
  inspection.core = true;
  inspection.path = core.path();
  inspection.process = process_of(core);
  const auto begin = Clock::now();
  const double cpu_begin = cpu_seconds();
  std::string exe;
  for (const process::Mapping& each : core.mappings())
    if (exe.empty() && !core.executable().empty() && each.name == core.executable()) exe = core.file_of(each);
  const std::string other = process::allocator_library(core.mappings(), exe);
  std::optional<unsigned> minor;
  if (auto copy = heap::copy_heaps(core)) {
    minor = minor_of(core, copy->ring);
    inspection.copied_bytes = copy->copied_bytes;
    inspection.heap = heap::take_apart(std::move(*copy), minor);
  }
  set_allocator(inspection, other, minor);
  inspection.walk_s = seconds_since(begin);
  inspection.walk_cpu_s = cpu_seconds() - cpu_begin;
  if (core.missing_bytes())
    inspection.notes.push_back(fmt::format("the core was cut off: {} bytes of it are missing", core.missing_bytes()));
  finish(inspection);
  add_kinds(inspection, core.mappings());
  return inspection;
}

}  // namespace heapspy::report
