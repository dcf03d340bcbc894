// The kernel, in some thirty functions. Raw system calls: they touch no errno, are no cancellation points and call
// nothing of libc, so they may run inside any hook, in a forked child and while the loader holds its locks.
// All return what the kernel returns: a value, or -errno.
#pragma once
#include <cstddef>
#include <cstdint>

struct iovec;
struct stat;
struct timespec;

namespace heapspy::os {

constexpr bool failed(long result) { return result < 0 && result >= -4095; }

long open(const char* path, int flags, int mode = 0);  // close-on-exec; never 0, 1 or 2
long openat_folder(int folder, const char* name, int flags);
long close(int fd);
long read(int fd, void* to, size_t bytes);
long pread(int fd, void* to, size_t bytes, uint64_t at);
long write(int fd, const void* from, size_t bytes);
// Raises no signal that the program would get: neither SIGPIPE nor SIGXFSZ.
bool write_quietly(int fd, const void* from, size_t bytes);
// PAGEMAP_SCAN (linux/fs.h, Linux 6.7): runs of pages that are present or swapped. Returns how many, or -errno.
struct PageRun {
  uint64_t start, end, categories;
};
inline constexpr uint64_t kPageOfFile = 1 << 2, kPagePresent = 1 << 3, kPageSwapped = 1 << 4, kPageZero = 1 << 5,
                          kPageHuge = 1 << 6;
long scan_pagemap(int pagemap, uint64_t start, uint64_t end, PageRun* to, uint64_t room);
long pwrite(int fd, const void* from, size_t bytes, uint64_t at);
long pwritev(int fd, const iovec* parts, int count, uint64_t at);
long fstat(int fd, struct stat* to);
long stat(const char* path, struct stat* to);
long fallocate(int fd, uint64_t at, uint64_t bytes);
long readlink(const char* path, char* to, size_t room);
long getdents(int fd, void* to, size_t bytes);
long unlink(const char* path);
long getcwd(char* to, size_t room);

// Returns nullptr on failure.
void* map_anonymous(size_t bytes);
void* map_shared(int fd, uint64_t at, size_t bytes);
long unmap(void* address, size_t bytes);
long advise(void* address, size_t bytes, int advice);
uint64_t brk_end();
// process_vm_readv(2): fails where a load would fault.
long read_memory(int process, uint64_t at, void* to, size_t bytes);

// The same of several parts of 8 bytes each.
long read_memory_parts(int process, uint64_t* to, const iovec* parts, size_t count);
// mincore(2): a byte for each page, bit 0: in RAM.
long in_core(uint64_t address, size_t bytes, unsigned char* to);

// Whether the 8 bytes at `address` may be read, by a system call that every sandbox allows. Changes nothing.
bool is_readable(uint64_t address);

long pid();
long ppid();
long tid();
// True where the thread of this process is gone. A reused tid looks alive.
bool thread_is_gone(uint32_t process, uint32_t thread);
void thread_name(char to[16]);  // of the calling thread; NUL-terminated
uint64_t file_size_limit();     // RLIMIT_FSIZE, or UINT64_MAX
uint64_t cpus_allowed();        // to the calling thread, by sched_setaffinity or a cpuset; 0: not known
void host_name(char* to, size_t room);
uint64_t clock_ns(int clock);  // by system call
void yield();
void futex_wait(uint32_t* word, uint32_t seen, const timespec* timeout);  // shared between processes
void futex_wake(uint32_t* word);
[[noreturn]] void exit_thread_now();

// From now on every function here fails with EPERM and asks the kernel nothing: a sandbox may kill for a call. Waits for
// threads that are within one, or have their signals blocked; a second at most, then it is not done (false). Not while
// SignalsBlocked.
bool rest_for_ever();
void wake_up();               // it was not for ever
void forget_other_threads();  // in a forked child: they are not there, whatever they were at

// Blocks every signal of the calling thread while in scope, so that no handler runs between two halves of a
// change.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  uint64_t before_ = 0;
};

// set*id(2) of glibc signals every thread and waits until each has handled it: a thread that blocks all signals for good must
// leave this one open.
void open_signal_of_set_id();

// A file descriptor that is closed at the end of the scope: the recorder holds none between two uses.
class File {
 public:
  explicit File(long fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(static_cast<int>(fd_));
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return fd_ >= 0; }
  int fd() const { return static_cast<int>(fd_); }
  long error() const { return fd_; }

 private:
  long fd_;
};

// Address space that becomes memory from its start as it is needed: mlockall(MCL_FUTURE) and memory accounting see only
// what was asked for. Never gives back; never moves.
class GrowingMemory {
 public:
  bool reserve(size_t bytes);  // false: no address space
  bool ensure(size_t bytes);   // makes the first `bytes` usable and zero; false: none to be had
  void release();
  char* data() const { return data_; }
  size_t usable_bytes() const { return usable_; }
  size_t reserved_bytes() const { return reserved_; }

 private:
  char* data_ = nullptr;
  size_t reserved_ = 0;
  size_t usable_ = 0;
};

// Reads a small file whole (for /proc, whose sizes are 0) and NUL-terminates it; returns its length, 0 on failure.
size_t read_file(const char* path, char* to, size_t room);

}  // namespace heapspy::os
