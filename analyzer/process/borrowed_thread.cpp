#include "analyzer/process/borrowed_thread.h"

#include <elf.h>
#include <fmt/core.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

#include "analyzer/process/interrupted_call.h"
#include "analyzer/process/quiet_call.h"

namespace heapspy::process {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOneThread{300};  // for a thread to come to a quiet call, while others may be nearer to one
constexpr milliseconds kCallBlocks{20};  // a call that takes longer is interrupted
constexpr milliseconds kUninterruptible{1000};
constexpr milliseconds kLookAgain{100};
constexpr std::uint64_t kStackRoom = 16u << 10;
constexpr std::uint64_t kMostStack = 16u << 20;
constexpr std::uint64_t kRedZone = 128;
constexpr int kSyscallStop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD
// Kernel space: to return there is a SIGSEGV at exactly this address, which only the tracer sees.
constexpr std::uint64_t kReturn = 0xfffffffffffff000;

[[noreturn]] void refuse(const std::string& line) { throw TargetError(TargetError::Reason::refused, line); }

void pause_shortly() {
  const timespec some{0, 50'000};
  ::nanosleep(&some, nullptr);
}

bool wants_to_end() {
  sigset_t waiting;
  if (::sigpending(&waiting) != 0) return false;
  return ::sigismember(&waiting, SIGINT) || ::sigismember(&waiting, SIGTERM) || ::sigismember(&waiting, SIGHUP);
}

bool is_libc_code(const Mapping& m, const std::string& library) {
  if (!m.execute || m.name.empty()) return false;
  if (m.name == library) return true;
  const std::string_view name = std::string_view(m.name).substr(m.name.rfind('/') + 1);
  return name.starts_with("libpthread.so") || name.starts_with("libpthread-2.");  // a library of its own until 2.33
}

}  // namespace

#if defined(__x86_64__)

struct BorrowedThread::State {
  user_regs_struct registers{};
  std::vector<std::byte> vectors;  // XSAVE area
  std::uint64_t mask = 0;
};

namespace {

bool get_registers(pid_t tid, user_regs_struct& registers) {
  iovec room{&registers, sizeof registers};
  return ::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &room) == 0 && room.iov_len == sizeof registers;
}
bool set_registers(pid_t tid, user_regs_struct registers) {
  iovec room{&registers, sizeof registers};
  return ::ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &room) == 0;
}

// Where signal handlers return to: mov $15,%rax; syscall (__restore_rt).
std::vector<std::uint64_t> handler_returns(const LiveProcess& process, const std::vector<Mapping>& code) {
  constexpr unsigned char kPattern[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  std::vector<std::uint64_t> found;
  for (const Mapping& each : code) {
    std::vector<unsigned char> bytes(std::min<std::uint64_t>(each.size_bytes(), 64u << 20));
    bytes.resize(process.read_memory(each.start, std::as_writable_bytes(std::span(bytes))));
    for (auto at = bytes.begin();; ++at) {
      at = std::search(at, bytes.end(), std::begin(kPattern), std::end(kPattern));
      if (at == bytes.end()) break;
      found.push_back(each.start + static_cast<std::uint64_t>(at - bytes.begin()));
    }
  }
  return found;
}

}  // namespace

BorrowedThread::BorrowedThread(const LiveProcess& process, const std::string& library, milliseconds patience)
    : process_(process), mappings_(parse_mappings(process.text("maps")).mappings), state_(std::make_unique<State>()) {
  for (const Mapping& each : mappings_)
    if (is_libc_code(each, library)) code_.push_back(each);
  const Status status = process.status();
  if (status.ignored >> (SIGSEGV - 1) & 1)
    refuse(fmt::format("process {} ignores SIGSEGV, by which the end of a borrowed call is seen; nothing was changed",
                       process.pid()));
  if (status.shadow_stack)
    refuse(fmt::format("process {} runs with a shadow stack, which no call from outside fits; nothing was changed",
                       process.pid()));
  handler_returns_ = handler_returns(process, code_);
  // Threads that wait in a quiet call first, and of these those whose call starts again as if it had not been interrupted.
  std::vector<std::pair<int, pid_t>> order;
  for (const pid_t tid : process.tasks()) {
    const std::int64_t call = parse_call_number(process.try_text(fmt::format("task/{}/syscall", tid)).value_or(""));
    order.emplace_back(!is_quiet_call(call) ? 2 : returns_when_stopped(call) ? 1 : 0, tid);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  sigset_t all;
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) ::sigdelset(&all, fault);
  ::sigprocmask(SIG_BLOCK, &all, &own_mask_);
  try {
    for (const auto end = Clock::now() + patience; Clock::now() < end && !wants_to_end();)
      for (const auto& [rank, tid] : order) {
        if (take(tid, std::min(end, Clock::now() + kOneThread))) return;
        if (Clock::now() >= end || wants_to_end()) break;
      }
    if (!process.alive()) ended();
    refuse(fmt::format(
        "no thread of process {} came to a system call at which it is safe to call malloc_trim within {:g} s; nothing "
        "was changed, try again when it does less",
        process.pid(), std::chrono::duration<double>(patience).count()));
  } catch (...) {
    let_go_of_thread();
    ::sigprocmask(SIG_SETMASK, &own_mask_, nullptr);
    throw;
  }
}

BorrowedThread::~BorrowedThread() { give_back(); }

void BorrowedThread::give_back() {
  if (!state_) return;
  let_go_of_thread();
  state_.reset();
  ::sigprocmask(SIG_SETMASK, &own_mask_, nullptr);
}

std::int64_t BorrowedThread::at_call() const { return state_ ? static_cast<std::int64_t>(state_->registers.orig_rax) : -1; }

void BorrowedThread::ended() const {
  throw TargetError(TargetError::Reason::gone, fmt::format("process {} has ended", process_.pid()));
}

BorrowedThread::Event BorrowedThread::wait(Clock::time_point until) {
  for (int looks = 0;; looks++) {
    int status = 0;
    const pid_t got = ::waitpid(tid_, &status, __WALL | WNOHANG);
    if (got == 0) {
      if (Clock::now() >= until) return Event::none;
      if (looks > 100) pause_shortly();
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    running_ = false;
    if (got < 0 || !WIFSTOPPED(status)) {
      tid_ = 0;
      return Event::ended;
    }
    stop_signal_ = WSTOPSIG(status);
    if (status >> 16 == PTRACE_EVENT_STOP) return Event::interrupted;
    return stop_signal_ == kSyscallStop ? Event::call : Event::signal;
  }
}

bool BorrowedThread::resume(int request, int signal) {
  running_ = ::ptrace(static_cast<__ptrace_request>(request), tid_, nullptr, static_cast<long>(signal)) == 0;
  return running_;
}

// False: it did not stop (an uninterruptible call), or it has ended (tid_ is 0 then).
bool BorrowedThread::interrupt_and_wait() {
  ::ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr);
  const Event event = wait(Clock::now() + kUninterruptible);
  if (event == Event::signal) pending_signal_ = stop_signal_;
  return event != Event::none && event != Event::ended;
}

// Takes `tid` and lets it run until it stands where a call is safe. False: it did not get there, and is let go.
bool BorrowedThread::take(pid_t tid, Clock::time_point until) {
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
    const int error = errno;
    if (error == ESRCH) return false;
    process_.refuse_trace(error);
  }
  tid_ = tid;
  running_ = true;
  pending_signal_ = 0;
  bool stopped = interrupt_and_wait();
  while (stopped) {
    if (pending_signal_ == 0 && get_registers(tid_, state_->registers) && quiet()) return true;
    if (Clock::now() >= until || !resume(PTRACE_SYSCALL, std::exchange(pending_signal_, 0))) break;
    switch (wait(std::min(until, Clock::now() + kCallBlocks))) {
      case Event::none: stopped = interrupt_and_wait(); break;
      case Event::signal: pending_signal_ = stop_signal_; break;
      case Event::ended: stopped = false; break;
      default: break;
    }
  }
  let_go_of_thread();
  return false;
}

// Whether the thread, which stands still with these registers, stands where a system call that malloc never makes returns.
bool BorrowedThread::quiet() const {
  const user_regs_struct& registers = state_->registers;
  const auto call = static_cast<std::int64_t>(registers.orig_rax), result = static_cast<std::int64_t>(registers.rax);
  constexpr std::int64_t kNotMade = -ENOSYS;         // at the entry of a call
  constexpr std::int64_t kGoesOnWithTimeout = -516;  // ERESTART_RESTARTBLOCK: of a futex, one with a timeout, as no lock has
  if (call < 0 || result == kNotMade) return false;
  if (!is_quiet_call(call) && !(call == SYS_futex && result == kGoesOnWithTimeout)) return false;
  const bool in_libc = std::any_of(code_.begin(), code_.end(), [&](const Mapping& each) {
    return registers.rip >= each.start + 2 && registers.rip < each.end;
  });
  if (!in_libc) return false;  // other runtimes' own calls may stand on stacks that have no room
  unsigned char instruction[2] = {};
  if (process_.read_memory(registers.rip - 2, std::as_writable_bytes(std::span(instruction))) != 2 || instruction[0] != 0x0f ||
      instruction[1] != 0x05)
    return false;
  const auto stack = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& each) {
    return registers.rsp >= each.start && registers.rsp < each.end && each.write;
  });
  if (stack == mappings_.end() || (stack->name != "[stack]" && registers.rsp - stack->start < kStackRoom)) return false;
  const bool of_thread = registers.fs_base > registers.rsp && registers.fs_base < stack->end;  // its variables are above
  const std::uint64_t end = of_thread ? registers.fs_base : stack->end;
  // In a handler the frame of a signal is on the stack, and with it the address to which the handler returns; the handler may
  // have interrupted malloc.
  std::vector<std::uint64_t> words(std::min<std::uint64_t>(end - registers.rsp, kMostStack) / 8);
  words.resize(process_.read_memory(registers.rsp, std::as_writable_bytes(std::span(words))) / 8);
  return std::none_of(words.begin(), words.end(), [&](std::uint64_t word) {
    return std::find(handler_returns_.begin(), handler_returns_.end(), word) != handler_returns_.end();
  });
}

// Lets go of the thread, with the signal that it was about to take.
void BorrowedThread::let_go_of_thread() {
  if (tid_ == 0) return;
  while (running_ && !interrupt_and_wait()) {
    if (tid_ != 0 && changed_) continue;  // nobody else can give it its own registers back
    tid_ = 0;                             // in a call that cannot be interrupted; the kernel lets it go when this program ends
    return;
  }
  if (tid_ != 0 && changed_) {
    if (pending_signal_ != SIGSTOP) pending_signal_ = 0;  // of the function: the program's own are blocked meanwhile
    restore();
  }
  if (tid_ != 0 && pending_signal_ == 0) start_call_again(process_, tid_);
  if (tid_ != 0) ::ptrace(PTRACE_DETACH, tid_, nullptr, static_cast<long>(std::exchange(pending_signal_, 0)));
  tid_ = 0;
}

void BorrowedThread::restore() {
  changed_ = false;
  iovec vectors{state_->vectors.data(), state_->vectors.size()};
  ::ptrace(PTRACE_SETREGSET, tid_, NT_X86_XSTATE, &vectors);
  ::ptrace(PTRACE_SETSIGMASK, tid_, sizeof state_->mask, &state_->mask);
  // With the number of the call and its result as they were: the kernel starts an interrupted call again by them.
  set_registers(tid_, state_->registers);
}

CallOutcome BorrowedThread::call(std::uint64_t function, std::uint64_t argument, bool count_madvise, milliseconds patience) {
  State& state = *state_;
  state.vectors.resize(1u << 16);
  iovec vectors{state.vectors.data(), state.vectors.size()};
  if (::ptrace(PTRACE_GETREGSET, tid_, NT_X86_XSTATE, &vectors) != 0 ||
      ::ptrace(PTRACE_GETSIGMASK, tid_, sizeof state.mask, &state.mask) != 0) {
    if (!process_.alive()) ended();
    refuse(
        fmt::format("the registers of thread {} of process {} cannot be kept: {}", tid_, process_.pid(), std::strerror(errno)));
  }
  state.vectors.resize(vectors.iov_len);
  user_regs_struct registers = state.registers;
  registers.rsp = ((registers.rsp - kRedZone - 512) & ~std::uint64_t{15}) - 8;  // as after a call instruction
  registers.rip = function;
  registers.rdi = argument;
  registers.rax = 0;
  registers.orig_rax = ~0ull;     // no call to start again
  registers.eflags &= ~0x500ull;  // direction and trap flags
  // Signals that are the program's wait for the end; a fault of the function itself must be seen.
  std::uint64_t mask = ~0ull;
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT}) mask &= ~(1ull << (fault - 1));
  changed_ = true;
  if (::ptrace(PTRACE_POKEDATA, tid_, registers.rsp, kReturn) != 0 ||
      ::ptrace(PTRACE_SETSIGMASK, tid_, sizeof mask, &mask) != 0 || !set_registers(tid_, registers)) {
    const int error = errno;
    if (!process_.alive()) ended();
    refuse(fmt::format("thread {} of process {} cannot be borrowed: {}; nothing was changed", tid_, process_.pid(),
                       std::strerror(error)));
  }
  return run(count_madvise, patience);
}

// Until the function has returned.
CallOutcome BorrowedThread::run(bool count_madvise, milliseconds patience) {
  CallOutcome outcome;
  if (count_madvise) outcome.madvise_calls = 0;
  const auto begin = Clock::now();
  auto look_at = begin + patience;
  user_regs_struct now{};
  for (;;) {
    if (!running_ && !resume(count_madvise ? PTRACE_SYSCALL : PTRACE_CONT, 0)) ended();
    Event event = Event::none;
    while (event == Event::none && Clock::now() < look_at && !wants_to_end())
      event = wait(std::min(look_at, Clock::now() + kLookAgain));
    const bool late = event == Event::none;
    if (late) {
      look_at = Clock::now() + kLookAgain;
      ::ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr);
      event = wait(Clock::now() + kUninterruptible);  // any event: it may return at this very moment
      if (event == Event::none) continue;             // in a call that cannot be interrupted: it runs on
    }
    if (event == Event::ended) ended();
    if (!get_registers(tid_, now)) continue;
    const auto call = static_cast<std::int64_t>(now.orig_rax);
    if (event == Event::call && static_cast<std::int64_t>(now.rax) == -ENOSYS && call == SYS_madvise && count_madvise)
      ++*outcome.madvise_calls;
    if (late && event == Event::interrupted && call == SYS_futex) {  // where it waits for a lock, it holds none
      restore();
      refuse(fmt::format(
          "malloc_trim waited for a lock that a thread of process {} holds, and was taken back after {:.1f} s; try again",
          process_.pid(), std::chrono::duration<double>(Clock::now() - begin).count()));
    }
    if (event != Event::signal) continue;
    if (stop_signal_ == SIGSEGV && now.rip == kReturn) break;
    if (stop_signal_ == SIGSTOP) {  // nobody can hold it back; it stops the process when the thread is given back
      pending_signal_ = SIGSTOP;
      continue;
    }
    restore();
    refuse(fmt::format("malloc_trim raised signal {} ({}) in process {}: its heap is damaged; the thread goes on where it was",
                       stop_signal_, ::sigabbrev_np(stop_signal_) ? ::sigabbrev_np(stop_signal_) : "?", process_.pid()));
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  outcome.value = now.rax;
  restore();
  return outcome;
}

#else  // other processors: registers and calls are named otherwise

struct BorrowedThread::State {};
BorrowedThread::BorrowedThread(const LiveProcess& process, const std::string&, milliseconds) : process_(process) {
  refuse("threads are borrowed on x86-64 only; run the program under the recorder, which trims by itself");
}
BorrowedThread::~BorrowedThread() = default;
void BorrowedThread::give_back() {}
std::int64_t BorrowedThread::at_call() const { return -1; }
CallOutcome BorrowedThread::call(std::uint64_t, std::uint64_t, bool, milliseconds) { return {}; }

#endif

}  // namespace heapspy::process
