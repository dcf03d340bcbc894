#include "memory_calls.h"

#if defined(__x86_64__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// Makes a call of the kernel; the filter lets this one instruction through. Number, then six arguments.
extern "C" long heapspy_let_through(long, long, long, long, long, long, long);
extern "C" const char heapspy_let_through_end[];
asm(R"(
.text
.globl heapspy_let_through, heapspy_let_through_end
.hidden heapspy_let_through, heapspy_let_through_end
.type heapspy_let_through, @function
heapspy_let_through:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
heapspy_let_through_end:
  ret
.size heapspy_let_through, . - heapspy_let_through
)");

namespace heapspy::trial::memory_calls {

namespace {

constexpr long kCounted[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise};
constexpr uint8_t kNumbers = sizeof kCounted / sizeof kCounted[0];
uint64_t numbers[kNumbers];

void count_and_make(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long number = registers[REG_RAX];
  for (uint8_t i = 0; i < kNumbers; i++)
    if (kCounted[i] == number) __atomic_fetch_add(&numbers[i], 1, __ATOMIC_RELAXED);
  registers[REG_RAX] = heapspy_let_through(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                           registers[REG_R10], registers[REG_R8], registers[REG_R9]);
}

}  // namespace

bool begin() {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = count_and_make;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;

  const auto after = reinterpret_cast<uint64_t>(heapspy_let_through_end);
  constexpr uint32_t kNumber = offsetof(seccomp_data, nr), kFrom = offsetof(seccomp_data, instruction_pointer);
  // Falls through to the next line, or jumps so many lines further: where true, where not.
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kCounted[0]), 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kCounted[1]), 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kCounted[2]), 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kCounted[3]), 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kCounted[4]), 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kCounted[5]), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFrom),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(after), 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFrom + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(after >> 32), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

Counts counts() { return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]}; }

}  // namespace heapspy::trial::memory_calls
#else
namespace heapspy::trial::memory_calls {
bool begin() { return false; }
Counts counts() { return {}; }
}  // namespace heapspy::trial::memory_calls
#endif
