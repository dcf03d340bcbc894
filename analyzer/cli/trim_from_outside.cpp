// A trim of a process that runs under no recorder. What it will return is predicted from its heap, read right before; exactly
// where all other threads stand still meanwhile (--still).
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/cli/trim_outcome.h"
#include "analyzer/heap/trim_prediction.h"
#include "analyzer/process/borrowed_thread.h"
#include "analyzer/process/exported_symbol.h"
#include "analyzer/process/java_attach.h"
#include "analyzer/process/stopped_process.h"
#include "analyzer/report/inspection.h"
#include "analyzer/report/inspection_json.h"

namespace heapspy::cli {
namespace {

using process::LiveProcess;
using report::Inspection;

constexpr const char* kTrimOfJava = "System.trim_native_heap";
constexpr std::size_t kMostCounted =
    256;  // madvise calls: to count one takes ten times as long as to make it, and a lock is held

constexpr std::chrono::milliseconds kBetweenLooks{1}, kMostStill{2000};

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
  if (!outcome.predicted)
    outcome.unpredicted = inspection.locked ? kLockedMemory : "the kernel does not say which pages of it are resident";
  outcome.arenas = report::inspection_json(inspection, {}).at("arenas");
  outcome.live_as_asked = false;
  outcome.rows.clear();
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

// The heap when the borrowed thread is at hand: the first look was before the wait for it, and other threads went on since.
struct LastLook {
  std::unique_ptr<process::StoppedProcess> stopped;
  std::optional<heap::HeapCopy> copy;
};

bool any_locked(const process::StoppedProcess& stopped, const heap::ArenaRing& ring) {
  return std::ranges::any_of(ring.arenas, [&](std::uint64_t arena) {
    return static_cast<std::uint32_t>(stopped.read_value<std::uint64_t>(arena).value_or(0)) != 0;
  });
}

// Of arenas that nobody has locked malloc_trim waits for none, so it may run while the others stand still.
LastLook last_look(const LiveProcess& target, pid_t held, const Inspection& first, const TrimOptions& options) {
  const auto until = std::chrono::steady_clock::now() + patience_of(options);
  LastLook look;
  do {
    look.stopped.reset();
    const auto room = std::make_shared<heap::CopyRoom>(first.heap->copy.copied_bytes / 64 * 65);
    do {
      if (look.stopped) {
        look.stopped.reset();
        std::this_thread::sleep_for(kBetweenLooks);
      }
      look.stopped = std::make_unique<process::StoppedProcess>(target, held);
    } while (options.still && any_locked(*look.stopped, first.heap->copy.ring) && std::chrono::steady_clock::now() < until);
    look.copy = heap::copy_heaps(*look.stopped, room);
    if (!options.still || (look.copy && !look.copy->any_locked())) return look;
  } while (std::chrono::steady_clock::now() < until);
  refuse(fmt::format(
      "a thread of process {} was inside malloc at every look within {:g} s, so malloc_trim would wait for it for ever; "
      "--timeout looks for longer, without --still the others run on",
      target.pid(), options.timeout_s));
}

TrimOutcome trim_by_thread(const LiveProcess& target, const TrimOptions& options) {
  refuse_filtered(target, options);
  Inspection inspection = inspect(target);
  TrimOutcome outcome;
  outcome.method = "ptrace";
  add_arenas(inspection, outcome);
  const heap::ArenaRing ring = inspection.heap->copy.ring;
  const std::uint64_t function = address_of_trim(target, ring);
  const bool count =  // while the others stand still, as short as it can be
      !options.still && heap::predict_trim(inspection.heap->copy, inspection.heap->walk).size() <= kMostCounted;
  process::BorrowedThread thread(target, ring.library, patience_of(options));
  outcome.by = fmt::format("thread {}, borrowed in system call {}", thread.tid(), thread.at_call());
  LastLook look = last_look(target, thread.tid(), inspection, options);
  add_totals(target, outcome.rss_before, outcome.anonymous_before);
  if (!options.still) look.stopped->release();
  const process::CallOutcome call =
      thread.call(function, 0, count, options.still ? std::min(kMostStill, patience_of(options)) : patience_of(options));
  add_totals(target, outcome.rss_after, outcome.anonymous_after);
  if (options.still) outcome.still_s = look.stopped->release();
  thread.give_back();
  if (look.copy) report::look_again(inspection, std::move(*look.copy));
  if (inspection.heap->proven()) add_arenas(inspection, outcome);  // else a thread was amid a change: by the first look
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
