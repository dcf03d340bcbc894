#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>

#include <atomic>

namespace heapspy::os {
namespace {

// See rest_for_ever. Threads of a forked child begin with what its parent had here.
std::atomic<uint32_t> at_work{0};
std::atomic<bool> closed{false};

#if defined(__x86_64__)
long kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
long kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#error "heapspy's recorder knows the system calls of x86-64 and aarch64"
#endif

// In this order: who closes looks at at_work after that.
long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  at_work.fetch_add(1);
  const long result = closed.load() ? -1 /* EPERM */ : kernel(number, a, b, c, d, e, f);
  at_work.fetch_sub(1);
  return result;
}

template <class T>
long word(T value) {
  return (long)value;  // NOLINT: a pointer or an integer as the kernel takes it
}

template <class Call>
long again_if_interrupted(Call once) {
  long result;
  do result = once();
  while (result == -4 /* EINTR */);
  return result;
}

}  // namespace

namespace {
// A program that closed a standard stream must not meet one of our files there.
long off_the_standard_streams(long fd) {
  if (fd < 0 || fd > 2) return fd;
  const long higher = call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
  close(static_cast<int>(fd));
  return higher;
}
}  // namespace

long open(const char* path, int flags, int mode) {
  return off_the_standard_streams(
      again_if_interrupted([&] { return call(SYS_openat, AT_FDCWD, word(path), flags | O_CLOEXEC, mode); }));
}
long openat_folder(int folder, const char* name, int flags) {
  return call(SYS_openat, folder, word(name), flags | O_CLOEXEC, 0);
}
long close(int fd) { return call(SYS_close, fd); }
long read(int fd, void* to, size_t bytes) {
  return again_if_interrupted([&] { return call(SYS_read, fd, word(to), word(bytes)); });
}
long pread(int fd, void* to, size_t bytes, uint64_t at) {
  return again_if_interrupted([&] { return call(SYS_pread64, fd, word(to), word(bytes), word(at)); });
}
long write(int fd, const void* from, size_t bytes) {
  return again_if_interrupted([&] { return call(SYS_write, fd, word(from), word(bytes)); });
}
long scan_pagemap(int pagemap, uint64_t start, uint64_t end, PageRun* to, uint64_t room) {
  struct {  // struct pm_scan_arg
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask, category_anyof_mask,
        return_mask;
  } request = {sizeof request,
               0,
               start,
               end,
               0,
               reinterpret_cast<uint64_t>(to),
               room,
               0,
               0,
               0,
               kPagePresent | kPageSwapped,
               kPagePresent | kPageSwapped | kPageOfFile | kPageZero | kPageHuge};
  static_assert(sizeof request == 96);
  constexpr uint64_t kPagemapScan = 0xc0606610;  // _IOWR('f', 16, struct pm_scan_arg)
  return call(SYS_ioctl, pagemap, word(kPagemapScan), word(&request));
}
long pwrite(int fd, const void* from, size_t bytes, uint64_t at) {
  return again_if_interrupted([&] { return call(SYS_pwrite64, fd, word(from), word(bytes), word(at)); });
}
long pwritev(int fd, const iovec* parts, int count, uint64_t at) {
  return again_if_interrupted([&] { return call(SYS_pwritev, fd, word(parts), count, word(at), 0); });
}
long fstat(int fd, struct stat* to) { return call(SYS_newfstatat, fd, word(""), word(to), AT_EMPTY_PATH); }
long stat(const char* path, struct stat* to) { return call(SYS_newfstatat, AT_FDCWD, word(path), word(to), 0); }
long fallocate(int fd, uint64_t at, uint64_t bytes) {
  return again_if_interrupted([&] { return call(SYS_fallocate, fd, 0, word(at), word(bytes)); });
}
long readlink(const char* path, char* to, size_t room) {
  const long length = call(SYS_readlinkat, AT_FDCWD, word(path), word(to), word(room - 1));
  to[length > 0 ? length : 0] = 0;
  return length;
}
long getdents(int fd, void* to, size_t bytes) { return call(SYS_getdents64, fd, word(to), word(bytes)); }
long unlink(const char* path) { return call(SYS_unlinkat, AT_FDCWD, word(path), 0); }
long getcwd(char* to, size_t room) { return call(SYS_getcwd, word(to), word(room)); }

void* map_anonymous(size_t bytes) {
  const long at = call(SYS_mmap, 0, word(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return failed(at) ? nullptr : reinterpret_cast<void*>(at);
}
void* map_shared(int fd, uint64_t at, size_t bytes) {
  const long where = call(SYS_mmap, 0, word(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, word(at));
  return failed(where) ? nullptr : reinterpret_cast<void*>(where);
}
long unmap(void* address, size_t bytes) { return call(SYS_munmap, word(address), word(bytes)); }
long advise(void* address, size_t bytes, int advice) { return call(SYS_madvise, word(address), word(bytes), advice); }
uint64_t brk_end() { return static_cast<uint64_t>(call(SYS_brk, 0)); }
// The kernel reads the set before it finds that there is no such way to change a mask.
bool is_readable(uint64_t address) { return call(SYS_rt_sigprocmask, 0x7fffffff, word(address), 0, 8) == -22 /* EINVAL */; }
long read_memory(int process, uint64_t at, void* to, size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(at), bytes};
  return call(SYS_process_vm_readv, process, word(&local), 1, word(&remote), 1, 0);
}
long read_memory_parts(int process, uint64_t* to, const iovec* parts, size_t count) {
  const iovec local = {to, count * 8};
  return call(SYS_process_vm_readv, process, word(&local), 1, word(parts), word(count), 0);
}
long in_core(uint64_t address, size_t bytes, unsigned char* to) {
  return call(SYS_mincore, word(address), word(bytes), word(to));
}

long pid() { return call(SYS_getpid); }
long ppid() { return call(SYS_getppid); }
long tid() { return call(SYS_gettid); }
bool thread_is_gone(uint32_t process, uint32_t thread) { return call(SYS_tgkill, process, thread, 0) == -3 /* ESRCH */; }
void thread_name(char to[16]) {
  to[0] = 0;
  call(SYS_prctl, PR_GET_NAME, word(to));
  to[15] = 0;
}
uint64_t file_size_limit() {
  struct {
    uint64_t soft, hard;
  } limit{};
  return call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, word(&limit)) == 0 ? limit.soft : UINT64_MAX;
}
uint64_t cpus_allowed() {
  uint64_t mask[64];  // 4096 CPUs
  const long bytes = call(SYS_sched_getaffinity, 0, sizeof mask, word(mask));
  uint64_t cpus = 0;
  for (long i = 0; i < bytes / 8; i++) cpus += static_cast<uint64_t>(__builtin_popcountll(mask[i]));
  return cpus;
}
void host_name(char* to, size_t room) {
  utsname name{};
  call(SYS_uname, word(&name));
  size_t i = 0;
  for (; i + 1 < room && name.nodename[i]; i++) to[i] = name.nodename[i];
  to[i] = 0;
}
uint64_t clock_ns(int clock) {
  timespec now{};
  call(SYS_clock_gettime, clock, word(&now));
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}
void yield() { call(SYS_sched_yield); }
void futex_wait(uint32_t* at, uint32_t seen, const timespec* timeout) {
  call(SYS_futex, word(at), FUTEX_WAIT, seen, word(timeout));
}
void futex_wake(uint32_t* at) { call(SYS_futex, word(at), FUTEX_WAKE, 1 << 30); }
void exit_thread_now() {
  for (;;) call(SYS_exit, 0);
}

bool write_quietly(int fd, const void* from, size_t bytes) {
  SignalsBlocked blocked;
  constexpr uint64_t kPipe = 1ull << (SIGPIPE - 1), kFileSize = 1ull << (SIGXFSZ - 1);
  uint64_t pending = 0;
  call(SYS_rt_sigpending, word(&pending), 8);
  const long wrote = write(fd, from, bytes);
  const uint64_t raised = wrote == -EPIPE ? kPipe : wrote == -EFBIG ? kFileSize : 0;
  const timespec at_once{};
  if (raised && !(pending & raised)) call(SYS_rt_sigtimedwait, word(&raised), 0, word(&at_once), 8);
  return wrote == static_cast<long>(bytes);
}

void open_signal_of_set_id() {
  const uint64_t set_id = 1ull << 32;  // SIGSETXID, 33: nptl/internal-signals.h
  call(SYS_rt_sigprocmask, SIG_UNBLOCK, word(&set_id), 0, 8);
}

bool rest_for_ever() {
  for (int i = 0; i < 10000 && at_work.load(); i++) {
    const timespec moment = {0, 100000};
    kernel(SYS_nanosleep, word(&moment), 0, 0, 0, 0, 0);
  }
  if (at_work.load()) return false;
  closed = true;
  // A thread may have begun another call in between. Without a call of our own from now on.
  for (long i = 0; i < 1000000000 && at_work.load(); i++) {
  }
  return true;
}
void wake_up() { closed = false; }
void forget_other_threads() { at_work = 0; }

SignalsBlocked::SignalsBlocked() {
  at_work.fetch_add(1);
  const uint64_t all = ~0ull;
  call(SYS_rt_sigprocmask, SIG_SETMASK, word(&all), word(&before_), 8);
}
SignalsBlocked::~SignalsBlocked() {
  call(SYS_rt_sigprocmask, SIG_SETMASK, word(&before_), 0, 8);
  at_work.fetch_sub(1);
}

bool GrowingMemory::reserve(size_t bytes) {
  const long at = call(SYS_mmap, 0, word(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(at)) return false;
  data_ = reinterpret_cast<char*>(at);
  reserved_ = bytes;
  usable_ = 0;
  return true;
}
bool GrowingMemory::ensure(size_t bytes) {
  if (bytes <= usable_) return true;
  constexpr size_t kStep = 64 << 10;
  size_t want = (bytes + kStep - 1) & ~(kStep - 1);
  if (want < usable_ + usable_ / 2) want = usable_ + (usable_ / 2 & ~(kStep - 1));
  if (want > reserved_) want = reserved_;
  if (bytes > want || failed(call(SYS_mprotect, word(data_), word(want), PROT_READ | PROT_WRITE))) return false;
  usable_ = want;
  return true;
}
void GrowingMemory::release() {
  if (data_) unmap(data_, reserved_);
  data_ = nullptr;
  reserved_ = usable_ = 0;
}

size_t read_file(const char* path, char* to, size_t room) {
  size_t length = 0;
  File file(open(path, O_RDONLY));
  while (file.ok() && length + 1 < room) {
    const long got = read(file.fd(), to + length, room - 1 - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  to[length] = 0;
  return length;
}

}  // namespace heapspy::os
