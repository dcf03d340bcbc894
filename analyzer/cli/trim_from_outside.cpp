// A trim of a process that runs under no recorder. What it will return is predicted from its heap, read right before.
#include <fmt/core.h>

#include <chrono>
#include <cmath>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/cli/trim_outcome.h"
#include "analyzer/heap/trim_prediction.h"
#include "analyzer/process/borrowed_thread.h"
#include "analyzer/process/exported_symbol.h"
#include "analyzer/process/java_attach.h"
#include "analyzer/report/inspection.h"
#include "analyzer/report/inspection_json.h"

namespace heapspy::cli {
namespace {

using process::LiveProcess;
using report::Inspection;

constexpr const char* kTrimOfJava = "System.trim_native_heap";
constexpr std::size_t kMostCounted =
    256;  // madvise calls: to count one takes ten times as long as to make it, and a lock is held

[[noreturn]] void refuse(const std::string& line) { throw Failure(ExitStatus::target_refused, line); }

std::chrono::milliseconds patience_of(const TrimOptions& options) {
  return std::chrono::milliseconds(std::llround(options.timeout_s * 1000));
}

Inspection inspect(const LiveProcess& target) {
  Inspection inspection = report::inspect_process(target);
  const pid_t pid = target.pid();
  if (!inspection.runs_glibc)
    refuse(fmt::format("process {} allocates with {}, and malloc_trim is glibc's; nothing was changed", pid,
                       inspection.process.allocator_name));
  if (!inspection.heap)
    refuse(fmt::format("process {} has no heap of glibc's, so there is nothing that malloc_trim could return", pid));
  for (const heap::Check& check : inspection.heap->checks)
    if (!check.ok)
      refuse(fmt::format("the heap of process {} does not prove itself ({}: {}); malloc_trim was not called in it", pid,
                         check.name, check.detail));
  return inspection;
}

void add_arenas(const Inspection& inspection, TrimOutcome& outcome) {
  outcome.predicted = inspection.trim_prediction_bytes;
  if (!outcome.predicted) outcome.unpredicted = "the kernel does not say which pages of it are resident";
  outcome.arenas = report::inspection_json(inspection, {}).at("arenas");
  outcome.live_as_asked = false;
  for (const report::InspectedArena& arena : inspection.arenas)
    outcome.rows.push_back({report::arena_label(arena), arena.system_bytes, arena.resident_bytes, arena.in_use_bytes,
                            arena.trimmable_bytes, arena.pinned_bytes, arena.cached_bytes});
}

void add_totals(const LiveProcess& target, std::optional<std::uint64_t>& rss, std::optional<std::uint64_t>& anonymous) {
  const auto totals = process::parse_rollup(target.try_text("smaps_rollup").value_or(""));
  if (!totals) return;
  rss = totals->rss_bytes;
  anonymous = totals->anonymous_bytes;
}

// In anonymous memory: the code of malloc_trim itself, called for the first time, comes into memory too.
void add_returned(TrimOutcome& outcome) {
  if (outcome.anonymous_before && outcome.anonymous_after)
    outcome.returned =
        static_cast<std::int64_t>(*outcome.anonymous_before) - static_cast<std::int64_t>(*outcome.anonymous_after);
}

void refuse_filtered(const LiveProcess& target, const TrimOptions& options) {
  const std::uint32_t mode = target.status().seccomp.value_or(0);
  if (mode == 0 || (mode == 2 && options.with_seccomp)) return;
  if (mode == 1) refuse(fmt::format("process {} may make no system call but read and write (strict seccomp)", target.pid()));
  refuse(fmt::format(
      "process {} runs under a seccomp filter, which may end it at a call of malloc_trim's (madvise, brk, futex); where "
      "it is known to allow them, as Docker's and systemd's do, add --with-seccomp",
      target.pid()));
}

std::uint64_t address_of_trim(const LiveProcess& target, const heap::ArenaRing& ring) {
  const auto maps = process::parse_mappings(target.text("maps"));
  const process::Mapping* first = process::first_mapping_of(maps.mappings, ring.library, ring.segment_start);
  const auto address = first ? process::exported_function(target, first->start, "malloc_trim") : std::nullopt;
  if (!address) expect_alive(target);
  if (!address)
    refuse(fmt::format("{} in process {} does not export malloc_trim (a static program?); nothing was changed", ring.library,
                       target.pid()));
  return *address;
}

TrimOutcome trim_by_thread(const LiveProcess& target, const TrimOptions& options) {
  refuse_filtered(target, options);
  const Inspection inspection = inspect(target);
  TrimOutcome outcome;
  outcome.method = "ptrace";
  add_arenas(inspection, outcome);
  const heap::ArenaRing& ring = inspection.heap->copy.ring;
  const std::uint64_t function = address_of_trim(target, ring);
  const bool count = heap::predict_trim(inspection.heap->copy, inspection.heap->walk).size() <= kMostCounted;
  process::BorrowedThread thread(target, ring.library, patience_of(options));
  outcome.by = fmt::format("thread {}, borrowed in system call {}", thread.tid(), thread.at_call());
  add_totals(target, outcome.rss_before, outcome.anonymous_before);
  const process::CallOutcome call = thread.call(function, 0, count, patience_of(options));
  add_totals(target, outcome.rss_after, outcome.anonymous_after);
  thread.give_back();
  outcome.duration_s = call.seconds;
  outcome.madvise_calls = call.madvise_calls;
  add_returned(outcome);
  return outcome;
}

// nullopt: this JVM has no such command.
std::optional<TrimOutcome> trim_by_java(const LiveProcess& target, const TrimOptions& options) {
  TrimOutcome outcome;
  outcome.method = "jcmd";
  add_arenas(inspect(target), outcome);
  add_totals(target, outcome.rss_before, outcome.anonymous_before);
  const process::JavaAnswer answer = process::java_command(target, kTrimOfJava, patience_of(options));
  add_totals(target, outcome.rss_after, outcome.anonymous_after);
  if (!answer.done) return std::nullopt;
  outcome.duration_s = answer.seconds;
  outcome.by = fmt::format("{}: {}", kTrimOfJava, answer.text.substr(0, answer.text.find('\n')));
  add_returned(outcome);
  return outcome;
}

}  // namespace

TrimOutcome trim_from_outside(const LiveProcess& target, const TrimOptions& options) {
  expect_running(target);
  if (options.method == "jcmd" && !process::listens_to_attach(target))
    refuse(fmt::format("process {} is no JVM that listens to jcmd; leave --method away", target.pid()));
  if (options.method == "jcmd" || (options.method == "auto" && process::listens_to_attach(target))) {
    if (auto outcome = trim_by_java(target, options)) return std::move(*outcome);
    if (options.method == "jcmd")
      refuse(fmt::format("the JVM {} does not know {} (JDK 17.0.9, 18 and later do); leave --method away", target.pid(),
                         kTrimOfJava));
  }
  return trim_by_thread(target, options);
}

}  // namespace heapspy::cli
