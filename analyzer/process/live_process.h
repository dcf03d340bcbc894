// A live process as /proc shows it. Nothing here stops it, signals it or writes to it.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/process/page_state.h"

namespace heapspy::process {

// The process is not there, went away, or may not be looked at. what() is one line: what, which process, the missing
// right, what to do.
struct TargetError : std::runtime_error {
  enum class Reason { gone, refused };
  TargetError(Reason why, const std::string& line) : std::runtime_error(line), reason(why) {}
  Reason reason;
};

// Fields of /proc/PID/status; nullopt where the text does not have it (kernel threads, zombies). Sizes in bytes.
struct Status {
  std::string name;  // at most 15 characters of it
  std::optional<char> state;
  std::optional<std::uint32_t> thread_group, parent, uid, threads, tracer, seccomp;
  // Signals: bit N - 1 is signal N. `pending`: of the thread and of its process.
  std::uint64_t ignored = 0, caught = 0, blocked = 0, pending = 0;
  bool shadow_stack = false;
  std::optional<std::uint32_t> namespace_pid;  // as the process itself sees it (last field of NSpid)
  bool kill_pending = false;                   // SIGKILL waits for this thread (SigPnd)
  std::optional<std::uint64_t> rss_bytes, peak_rss_bytes, page_table_bytes, swap_bytes, locked_bytes;
  // By mlockall: the kernel refuses what malloc_trim asks of it (madvise(2), MADV_DONTNEED: EINVAL for locked pages).
  bool is_locked() const { return rss_bytes && locked_bytes && *locked_bytes >= *rss_bytes / 2; }
};
Status parse_status(std::string_view text);

// Totals of /proc/PID/smaps_rollup, in bytes.
struct MemoryTotals {
  std::uint64_t rss_bytes = 0, pss_bytes = 0, anonymous_bytes = 0, private_dirty_bytes = 0, swap_bytes = 0;
};
std::optional<MemoryTotals> parse_rollup(std::string_view text);

// The stack pointer in the text of /proc/PID/task/TID/syscall; nullopt: the thread is running, or the text is damaged.
std::optional<std::uint64_t> parse_stack_pointer(std::string_view text);

class LiveProcess {
 public:
  // Throws TargetError. Holds /proc/PID open, so a reused pid is never taken for it.
  explicit LiveProcess(pid_t pid);
  ~LiveProcess();
  LiveProcess(const LiveProcess&) = delete;
  LiveProcess& operator=(const LiveProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool alive() const;  // false too for a zombie

  // The whole of /proc/PID/<name>. Throws TargetError.
  std::string text(const std::string& name) const;
  // The same; nullopt when it cannot be read.
  std::optional<std::string> try_text(const std::string& name) const;
  // Target of the link /proc/PID/<name>; "" when it cannot be read.
  std::string link(const std::string& name) const;

  // Throws TargetError where it has none of its own: a kernel thread, or it has ended (a zombie).
  void expect_memory() const;

  Status status() const { return parse_status(text("status")); }
  std::vector<std::string> command() const;
  std::vector<pid_t> tasks() const;                   // ascending
  std::vector<std::uint64_t> stack_pointers() const;  // of threads that are not running right now
  // Bytes of memory copied to `to` from `address` on; less than asked where it ends or may not be read.
  std::size_t read_memory(std::uint64_t address, std::span<std::byte> to) const;
  // One bit per page of the range: in RAM (/proc/PID/pagemap bit 63). nullopt: may not be read.
  std::optional<std::vector<bool>> resident_pages(std::uint64_t start, std::size_t pages) const;
  // The same with more to tell (page_state.h).
  std::optional<std::vector<PageState>> page_states(std::uint64_t start, std::size_t pages) const;
  // Throws the TargetError for a ptrace that failed with this errno.
  [[noreturn]] void refuse_trace(int error) const;

 private:
  [[noreturn]] void refuse(const std::string& name, int error) const;
  int open_file(const std::string& name) const;

  pid_t pid_;
  int folder_ = -1;
  mutable int memory_ = -1, page_map_ = -1;  // opened when first needed
};

}  // namespace heapspy::process
