#include "analyzer/process/stopped_process.h"

#include <elf.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <latch>
#include <thread>

#include "analyzer/process/interrupted_call.h"

namespace heapspy::process {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(5);           // for a thread that runs
constexpr auto kAsleepAfter = std::chrono::milliseconds(20);  // in an uninterruptible call: it would not run anyway
constexpr std::size_t kMostPieces = 1024;                     // IOV_MAX

}  // namespace

// Holds a thread that sleeps in a call which nothing interrupts (vfork, until the child has gone; a disk that does not answer).
// A thread can be let go only where it has stopped, but of a tracer that ends the kernel lets go all: so it has one of its own.
class StoppedProcess::Sleeper {
 public:
  explicit Sleeper(pid_t tid) : tracer_([this, tid] { hold(tid); }) { ready_.wait(); }
  ~Sleeper() {
    over_.count_down();
    tracer_.join();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  bool held() const { return held_; }

 private:
  void hold(pid_t tid) {
    held_ = ::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0 && ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0;
    ready_.count_down();
    over_.wait();
  }

  std::latch ready_{1}, over_{1};
  bool held_ = false;
  std::thread tracer_;
};

StoppedProcess::StoppedProcess(const LiveProcess& process, pid_t held)
    : process_(process), held_(held), begin_(Clock::now()), page_bytes_(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) {
  try {
    hold_sleepers();
    seize_all();
    read_registers();
    mappings_ = parse_mappings(process_.text("maps")).mappings;
    if (mappings_.empty()) process_.expect_memory();
  } catch (...) {
    let_go();
    throw;
  }
}

StoppedProcess::~StoppedProcess() { let_go(); }

double StoppedProcess::release() {
  let_go();
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

char StoppedProcess::state_of(pid_t tid) const {
  const auto text = process_.try_text(fmt::format("task/{}/status", tid));
  return text ? parse_status(*text).state.value_or('X') : 'X';
}

// False: the thread has ended.
bool StoppedProcess::seize(pid_t tid) {
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0) {
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    return true;
  }
  const int error = errno;
  const char state = state_of(tid);
  if (error == ESRCH || state == 'Z' || state == 'X') return false;
  if (::getpid() == process_.pid()) throw TargetError(TargetError::Reason::refused, "a process cannot stop itself");
  process_.refuse_trace(error);
}

// Before the others stand still and wait for the answer.
void StoppedProcess::hold_sleepers() {
  std::vector<pid_t> asleep = process_.tasks();
  const auto until = Clock::now() + kAsleepAfter;
  do {
    std::erase_if(asleep, [this](pid_t tid) { return tid == held_ || state_of(tid) != 'D'; });
    if (asleep.empty()) break;
    ::sched_yield();
  } while (Clock::now() < until);
  for (const pid_t tid : asleep)
    if (auto sleeper = std::make_unique<Sleeper>(tid); sleeper->held()) sleepers_.emplace(tid, std::move(sleeper));
  begin_ = Clock::now();
}

void StoppedProcess::seize_all() {
  // Threads that are born while others are being stopped: until a look finds none.
  for (bool more = true; more;) {
    more = false;
    for (const pid_t tid : process_.tasks()) {
      if (tid == held_ || sleepers_.contains(tid) || seized_.contains(tid) || !seize(tid)) continue;
      seized_.emplace(tid, Seized{});
      more = true;
    }
    wait_until_stopped();
  }
  if ((seized_.empty() && sleepers_.empty() && held_ == 0) || !process_.alive())
    throw TargetError(TargetError::Reason::gone, fmt::format("process {} has ended", process_.pid()));
}

void StoppedProcess::take_wait_status(pid_t tid, int status) {
  if (!WIFSTOPPED(status)) {
    seized_.erase(tid);
    return;
  }
  Seized& thread = seized_[tid];
  thread.stopped = true;
  // Either our interrupt, or the thread was about to take a signal: that one is passed on when it goes on.
  if (status >> 16 != PTRACE_EVENT_STOP) thread.signal = WSTOPSIG(status);
  thread.by_interrupt = thread.signal == 0 && WSTOPSIG(status) == SIGTRAP;
}

void StoppedProcess::wait_until_stopped() {
  const auto begin = Clock::now();
  for (;;) {
    std::vector<pid_t> waiting;
    for (const auto& [tid, thread] : seized_)
      if (!thread.stopped) waiting.push_back(tid);
    asleep_ = 0;
    for (const pid_t tid : waiting) {
      int status = 0;
      const pid_t got = ::waitpid(tid, &status, __WALL | WNOHANG);
      if (got == tid) take_wait_status(tid, status);
      if (got < 0) seized_.erase(tid);
      if (got == 0 && Clock::now() - begin > kAsleepAfter && state_of(tid) == 'D') asleep_++;
    }
    const auto running = static_cast<std::size_t>(
        std::count_if(seized_.begin(), seized_.end(), [](const auto& each) { return !each.second.stopped; }));
    if (running <= asleep_) return;
    if (Clock::now() - begin > kPatience)
      throw TargetError(TargetError::Reason::refused,
                        fmt::format("{} of the threads of process {} did not stop within {} s; try again", running,
                                    process_.pid(), kPatience.count()));
    ::sched_yield();
  }
}

void StoppedProcess::read_registers() {
  for (const pid_t tid : process_.tasks()) {
    ThreadState state;
    state.tid = tid;
    const auto thread = seized_.find(tid);
    const bool seized = thread != seized_.end();
    if (!seized && tid != held_ && !sleepers_.contains(tid)) continue;  // a leader that ended before its threads
    if (tid == held_ || (seized && thread->second.stopped)) {
      user_regs_struct registers{};
      iovec room{&registers, sizeof registers};
      if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &room) == 0) {
#if defined(__x86_64__)
        if (room.iov_len == sizeof registers) {  // less: the thread runs 32-bit code
          state.thread_pointer = registers.fs_base;
          state.stack_pointer = registers.rsp;
        }
#elif defined(__aarch64__)
        state.stack_pointer = registers.sp;
        std::uint64_t pointer = 0;
        iovec tls{&pointer, sizeof pointer};
        if (::ptrace(PTRACE_GETREGSET, tid, NT_ARM_TLS, &tls) == 0) state.thread_pointer = pointer;
#endif
      }
    }
    threads_.push_back(state);
  }
}

void StoppedProcess::let_go() {
  if (released_) return;
  released_ = true;
  sleepers_.clear();
  for (auto& [tid, thread] : seized_) {
    if (!thread.stopped) {  // only a stopped thread can be let go; the interrupt is still on its way
      int status = 0;
      for (int i = 0; i < 1000 && ::waitpid(tid, &status, __WALL | WNOHANG) == 0; i++) ::sched_yield();
      if (WIFSTOPPED(status)) take_wait_status(tid, status);
    }
    if (thread.by_interrupt) start_call_again(process_, tid);
    ::ptrace(PTRACE_DETACH, tid, nullptr, static_cast<long>(thread.signal));
  }
}

std::size_t StoppedProcess::read(std::uint64_t address, std::span<std::byte> to) const {
  return process_.read_memory(address, to);
}

std::vector<bool> StoppedProcess::read_pieces(std::span<const Piece> pieces, std::byte* to) const {
  std::vector<bool> whole(pieces.size(), false);
  std::vector<iovec> remote;
  for (std::size_t i = 0; i < pieces.size();) {
    const std::size_t end = std::min(pieces.size(), i + kMostPieces);
    remote.clear();
    std::size_t wanted = 0;
    for (std::size_t k = i; k < end; k++) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the other process
      remote.push_back({reinterpret_cast<void*>(pieces[k].address), pieces[k].bytes});
      wanted += pieces[k].bytes;
    }
    iovec local{to, wanted};
    const ssize_t copied = ::process_vm_readv(process_.pid(), &local, 1, remote.data(), remote.size(), 0);
    std::size_t got = copied > 0 ? static_cast<std::size_t>(copied) : 0;
    for (; i < end && pieces[i].bytes <= got; i++) {
      whole[i] = true;
      got -= pieces[i].bytes;
      to += pieces[i].bytes;
    }
    if (i == end) continue;
    // It ended within this piece. /proc/PID/mem also reads pages that the process itself may not.
    const std::span<std::byte> room(to, pieces[i].bytes);
    whole[i] = read(pieces[i].address, room) == room.size();
    if (!whole[i]) std::fill(room.begin(), room.end(), std::byte{0});
    to += room.size();
    i++;
  }
  return whole;
}

std::string StoppedProcess::file_of(const Mapping& mapping) const {
  if (!mapping.name.starts_with('/')) return "";
  std::string path = fmt::format("/proc/{}/root{}", process_.pid(), mapping.name);
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0 || now.st_ino != mapping.inode) return "";
  // Overlay file systems show another device in maps than in stat: the inode and the path must do there.
  return path;
}

}  // namespace heapspy::process
