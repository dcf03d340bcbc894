#include "analyzer/trial/measured_run.h"

#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>

#include "analyzer/process/live_process.h"
#include "analyzer/trial/lock_waits.h"

namespace heapspy::trial {
namespace {

using process::LiveProcess;

constexpr std::chrono::milliseconds kSampleEvery{10};

double seconds(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; }

// What one process of the run had. Taken together, so that peak and end are of the same process.
struct Memory {
  std::uint64_t peak_bytes = 0, end_bytes = 0, end_anonymous_bytes = 0;
  std::string name;
  pid_t pid = 0;
  bool library_seen = false;
};

// The exact RSS: VmRSS of status and statm lag by up to 64 pages per CPU since Linux 6.2.
std::optional<Memory> read_memory_of(pid_t pid, const std::string& library) {
  try {
    const LiveProcess target(pid);
    const auto rollup = process::parse_rollup(target.try_text("smaps_rollup").value_or(""));
    const process::Status status = process::parse_status(target.try_text("status").value_or(""));
    if (!rollup || !status.peak_rss_bytes) return std::nullopt;
    Memory memory{std::max(*status.peak_rss_bytes, rollup->rss_bytes),
                  rollup->rss_bytes,
                  rollup->anonymous_bytes,
                  status.name,
                  pid,
                  false};
    if (!library.empty()) {
      // maps shows the file that a link leads to: libmimalloc.so.2.0 for libmimalloc.so.2.
      const std::string maps = target.try_text("maps").value_or("");
      char real[4096];
      memory.library_seen = maps.find(library) != std::string::npos ||
                            (::realpath(library.c_str(), real) != nullptr && maps.find(real) != std::string::npos);
    }
    return memory;
  } catch (const process::TargetError&) {
    return std::nullopt;
  }
}

std::optional<process::Status> status_of_task(pid_t tid) {
  try {
    return process::parse_status(LiveProcess(tid).try_text("status").value_or(""));
  } catch (const process::TargetError&) {
    return std::nullopt;
  }
}

std::vector<pid_t> tasks_of(pid_t pid) {
  try {
    return LiveProcess(pid).tasks();
  } catch (const process::TargetError&) {
    return {};
  }
}

// Whether threads other than the first live on while it exits. When the whole process exits, each has SIGKILL pending.
bool others_go_on(pid_t pid) {
  for (const pid_t tid : tasks_of(pid)) {
    if (tid == pid) continue;
    const auto status = status_of_task(tid);
    if (status && status->rss_bytes && !status->kill_pending) return true;
  }
  return false;
}

// A thread of the process that still has its memory; the pid itself when there is none.
pid_t living_task(pid_t pid) {
  for (const pid_t tid : tasks_of(pid))
    if (const auto status = status_of_task(tid); status && status->rss_bytes) return tid;
  return pid;
}

// Waits for the run's end while its processes are held for a moment at their exits.
class Watch {
 public:
  Watch(const RunPlan& plan, MeasuredRun& run) : plan_(plan), run_(run), companion_(plan.companion) {}

  void begin() {
    process::ChildPlan child = plan_.child;
    child.output_fd = companion_.output_end();
    child_ = process::start_child(child, [this](pid_t pid) {
      // Only exits stop, and forks so that the children are followed; threads, calls and exec run free. Without
      // EXITKILL: should this process die, the program goes on.
      const long options = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
      traced_ = ::ptrace(PTRACE_SEIZE, pid, nullptr, options) == 0;
      begin_ = std::chrono::steady_clock::now();
    });
    lock_waits_.add(child_);
    companion_.begin(child_, [this] { at_end_ = read_memory_of(child_, plan_.expected_library); });
  }

  void finish() {
    int status = 0;
    rusage usage{};
    if (traced_)
      follow(status, usage);
    else
      sample(status, usage);
    run_.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_ - held_).count();
    run_.lock_wait_s = lock_waits_.finish();
    companion_.finish();
    run_.curve = companion_.curve();
    run_.ended_by_us = companion_.ended_it();
    if (at_end_ && largest_.pid == child_) {
      largest_.end_bytes = at_end_->end_bytes;
      largest_.end_anonymous_bytes = at_end_->end_anonymous_bytes;
    }
    run_.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    run_.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    run_.minor_faults = static_cast<std::uint64_t>(usage.ru_minflt);
    run_.voluntary_switches = static_cast<std::uint64_t>(usage.ru_nvcsw);
    run_.method = traced_ ? MemoryMethod::exit_stop : MemoryMethod::sampling;
    if (largest_.peak_bytes == 0) return;
    run_.peak_rss_bytes = largest_.peak_bytes;
    run_.end_rss_bytes = largest_.end_bytes;
    run_.end_anonymous_bytes = largest_.end_anonymous_bytes;
    run_.largest_process = largest_.name;
    run_.library_seen = largest_.library_seen;
  }

 private:
  void note(std::optional<Memory> memory) {
    if (memory && memory->peak_bytes > largest_.peak_bytes) largest_ = std::move(*memory);
  }

  void follow(int& status, rusage& usage) {
    while (traced_) {
      const pid_t pid = ::wait4(-1, &status, __WALL, &usage);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return;
      if (WIFSTOPPED(status))
        let_go(pid, status);
      else if (pid == child_)
        return;
    }
    sample(status, usage);
  }

  void let_go(pid_t pid, int status) {
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT) {
      const auto stopped = std::chrono::steady_clock::now();
      note(read_memory_of(pid, plan_.expected_library));
      // The main thread may leave a process that goes on (pthread_exit): then only sampling sees its end.
      if (pid == child_ && others_go_on(pid)) traced_ = false;
      ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
      if (pid == child_) held_ += std::chrono::steady_clock::now() - stopped;
    } else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
      ::ptrace(PTRACE_LISTEN, pid, nullptr, nullptr);  // stopped by SIGSTOP or Ctrl-Z: until SIGCONT
    } else if (event != 0) {
      unsigned long forked = 0;
      if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) &&
          ::ptrace(PTRACE_GETEVENTMSG, pid, nullptr, &forked) == 0)
        lock_waits_.add(static_cast<pid_t>(forked));
      ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
    } else {
      ::ptrace(PTRACE_CONT, pid, nullptr, static_cast<long>(signal));
    }
  }

  void sample(int& status, rusage& usage) {
    for (;;) {
      const pid_t pid = ::wait4(child_, &status, WNOHANG, &usage);
      if (pid == child_ || (pid < 0 && errno != EINTR)) break;
      if (auto memory = read_memory_of(living_task(child_), plan_.expected_library)) {
        memory->library_seen = memory->library_seen || largest_.library_seen;
        largest_ = std::move(*memory);
      }
      const timespec pause{0, std::chrono::nanoseconds(kSampleEvery).count()};
      ::nanosleep(&pause, nullptr);
    }
    if (largest_.peak_bytes != 0)
      largest_.peak_bytes = std::max(largest_.peak_bytes, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
  }

  const RunPlan& plan_;
  MeasuredRun& run_;
  pid_t child_ = 0;
  bool traced_ = false;
  std::chrono::steady_clock::duration held_{};  // how long the started process's exit waited for us
  std::chrono::steady_clock::time_point begin_;
  Memory largest_;
  std::optional<Memory> at_end_;  // before it was told to end; by another thread, until companion_.finish()
  RunCompanion companion_;
  LockWaitSampler lock_waits_;
};

}  // namespace

MeasuredRun run_measured(const RunPlan& plan) {
  MeasuredRun run;
  Watch watch(plan, run);
  watch.begin();
  watch.finish();
  return run;
}

}  // namespace heapspy::trial
