// One real run of a program, unrecorded, with what the kernel says about it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/process/child_process.h"
#include "analyzer/trial/run_companion.h"

namespace heapspy::trial {

// How the memory figures of a run came about.
enum class MemoryMethod {
  exit_stop,  // each process was held at its exit (ptrace, PTRACE_EVENT_EXIT) and /proc read: exact
  sampling,   // ptrace was refused: /proc of the started process every 10 ms; the peak is still the kernel's own
};

struct MeasuredRun {
  int exit_status = 0;  // 128 + N for signal N
  // Of the largest process of the run: the started one, or one that it forked. Peak: VmHWM; end: RSS as it exits, or before it
  // was told to.
  std::optional<std::uint64_t> peak_rss_bytes, end_rss_bytes;
  std::optional<std::uint64_t> end_anonymous_bytes;  // of end_rss_bytes, what no file stands behind: heaps and stacks
  MemoryMethod method = MemoryMethod::exit_stop;
  std::string largest_process;           // its name (comm), "" unknown
  bool library_seen = false;             // of RunPlan: mapped in the largest process as it exited
  double wall_s = 0;                     // from exec to exit
  double cpu_s = 0;                      // user + system, with the children that were waited for
  std::uint64_t minor_faults = 0;        // the same
  std::optional<double> lock_wait_s;     // see lock_waits.h; nullopt: the run was too short, or /proc was refused
  std::uint64_t voluntary_switches = 0;  // the same; waits for locks are among them
  std::vector<RssPoint> curve;           // of the started process, where samples were asked for
  bool ended_by_us = false;              // CompanionPlan: it got SIGTERM
};

struct RunPlan {
  process::ChildPlan child;
  std::string expected_library;  // path; "" none
  CompanionPlan companion{};
};

// Runs the program to its end. Meant for a process that has no other children. Throws process::StartError.
MeasuredRun run_measured(const RunPlan& plan);

}  // namespace heapspy::trial
