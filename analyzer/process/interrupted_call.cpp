#include "analyzer/process/interrupted_call.h"

#include <elf.h>
#include <fmt/core.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace heapspy::process {

#if defined(__x86_64__)

namespace {

// Where they return EINTR they have done nothing. Not among them: close and connect, which have.
constexpr long kDoNothing[] = {
    SYS_epoll_wait,      SYS_epoll_pwait,     SYS_epoll_pwait2, SYS_semop,          SYS_semtimedop,
    SYS_rt_sigtimedwait, SYS_io_getevents,    SYS_msgrcv,       SYS_msgsnd,         SYS_read,
    SYS_readv,           SYS_write,           SYS_writev,       SYS_recvfrom,       SYS_recvmsg,
    SYS_recvmmsg,        SYS_sendto,          SYS_sendmsg,      SYS_sendmmsg,       SYS_accept,
    SYS_accept4,         SYS_mq_timedreceive, SYS_mq_timedsend, SYS_io_uring_enter, SYS_io_pgetevents,
};
constexpr std::uint64_t kInstruction = 2;  // bytes of `syscall`

bool signal_waits(const LiveProcess& process, pid_t tid) {
  const auto text = process.try_text(fmt::format("task/{}/status", tid));
  if (!text) return true;
  const Status status = parse_status(*text);
  return (status.pending & ~status.blocked) != 0;
}

}  // namespace

void start_call_again(const LiveProcess& process, pid_t tid) {
  user_regs_struct registers{};
  iovec room{&registers, sizeof registers};
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &room) != 0 || room.iov_len != sizeof registers) return;
  const auto call = static_cast<long>(registers.orig_rax);
  if (static_cast<std::int64_t>(registers.rax) != -EINTR ||
      std::find(std::begin(kDoNothing), std::end(kDoNothing), call) == std::end(kDoNothing))
    return;
  unsigned char instruction[kInstruction] = {};
  if (process.read_memory(registers.rip - kInstruction, std::as_writable_bytes(std::span(instruction))) != kInstruction ||
      instruction[0] != 0x0f || instruction[1] != 0x05)
    return;
  if (signal_waits(process, tid)) return;
  registers.rip -= kInstruction;
  registers.rax = registers.orig_rax;
  registers.orig_rax = ~0ull;  // no call to look at: it has not been made
  ::ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &room);
}

#else

void start_call_again(const LiveProcess&, pid_t) {}

#endif

}  // namespace heapspy::process
