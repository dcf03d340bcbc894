#include "analyzer/process/quiet_call.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace heapspy::process {
namespace {

// Not among them, because malloc, fork (which holds all of malloc's locks) or a signal frame may stand around them: brk, mmap,
// munmap, mremap, mprotect, madvise, futex, getrandom, prctl, sched_yield, sched_getaffinity, clone, rt_sigprocmask,
// rt_sigreturn, set_robust_list. open, openat, close and read of /sys are made by malloc at moments at which it holds no lock
// and has nothing half done. restart_syscall goes on with a sleep, a poll or a futex with a timeout: malloc's locks have none.
constexpr std::int64_t kQuiet[] = {
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_pwait,
    SYS_nanosleep,
    SYS_wait4,
    SYS_waitid,
    SYS_accept,
    SYS_accept4,
    SYS_connect,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_openat,
    SYS_close,
    SYS_getdents64,
    SYS_newfstatat,
    SYS_lseek,
    SYS_ioctl,
    SYS_io_getevents,
    SYS_msgrcv,
    SYS_msgsnd,
    SYS_semop,
    SYS_semtimedop,
    SYS_mq_timedreceive,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_clock_nanosleep,
    SYS_getpid,
    SYS_getppid,
    SYS_getrusage,
    SYS_times,
    SYS_uname,
    SYS_sendfile,
    SYS_splice,
    SYS_copy_file_range,
    SYS_restart_syscall,
#if defined(__x86_64__)
    SYS_open,
    SYS_stat,
    SYS_fstat,
    SYS_lstat,
    SYS_poll,
    SYS_select,
    SYS_epoll_wait,
    SYS_pause,
    SYS_time,
    SYS_access,
#endif
};
constexpr std::int64_t kNotRestarted[] = {
    SYS_epoll_pwait, SYS_io_getevents, SYS_msgrcv,          SYS_msgsnd,
    SYS_semop,       SYS_semtimedop,   SYS_rt_sigtimedwait, SYS_mq_timedreceive,
#if defined(__x86_64__)
    SYS_epoll_wait,
#endif
};

}  // namespace

bool is_quiet_call(std::int64_t number) { return std::find(std::begin(kQuiet), std::end(kQuiet), number) != std::end(kQuiet); }

bool returns_when_stopped(std::int64_t number) {
  return std::find(std::begin(kNotRestarted), std::end(kNotRestarted), number) != std::end(kNotRestarted);
}

// "running", "-1 0x7ffd… 0x7f1b…", "61 0x2bd …"
std::int64_t parse_call_number(std::string_view text) {
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace heapspy::process
