// Plays the calls of a trace in the recorded order, each on the thread that made it, under whatever allocator this process was
// started with, and says what the heap took. usage: heapspy-replayer OPERATIONS [TRIM_US]
//
// Everything of its own lies in shared memory (memfd) or in file mappings, the threads' stacks, too: private anonymous memory
// beyond what was there at the start is the allocator's. Time stands at the recorded moment of the call that is played: what an
// allocator does by the clock (jemalloc's and mimalloc's decay) it does as in the program, at any speed.
//
// Results are lines on the standard output: "curve TIME_US BYTES", then "peak", "end", "operations", "wall_us", "cpu_us",
// "faults", "failed" and "arenas" (glibc) with one number each.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../operation.h"

using namespace heapspy::trial;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStackBytes = 256 << 10;
constexpr uint32_t kCurvePoints = 200;
constexpr uint64_t kLookEvery = 256;            // operations between two cheap looks at the heap
constexpr uint64_t kWorthMeasuring = 64 << 10;  // a cheap look that is this much above the peak is followed by an exact one

const OperationsHeader* header_;
const Operation* operations_;
void** slots_;
char* stacks_;
uint64_t trim_us_ = 0, next_trim_us_ = ~0ull;

struct Point {
  uint64_t time_us, bytes;
};
struct Thread {
  uint32_t turn;  // futex: 1 when it is this thread's turn
  bool started;
  pthread_t handle;
};
Thread* threads_;
Point* curve_;
uint32_t points_ = 0;

uint64_t baseline_ = 0, peak_ = 0, end_ = 0, failed_ = 0;
uint64_t base_ns_ = 0;             // of the real clock at the start
volatile uint64_t played_us_ = 0;  // recorded time
uint64_t next_point_us_ = 0, point_step_us_ = 1;
uint64_t at_ = 0;  // operation that is played; handed from thread to thread with the turn

uint64_t real_ns() {
  timespec time;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

[[noreturn]] void fail(const char* what) {
  dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
  _exit(1);
}

uint64_t read_number(const char* path, const char* key) {
  char text[4096];
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* at = strstr(text, key);
  if (!at) return 0;
  at += strlen(key);
  uint64_t value = 0;
  while (*at == ' ' || *at == '\t') at++;
  while (*at >= '0' && *at <= '9') value = value * 10 + static_cast<uint64_t>(*at++ - '0');
  return value;
}

// The kernel walks the page tables for it: exact.
uint64_t anonymous_bytes() { return read_number("/proc/self/smaps_rollup", "Anonymous:") * 1024; }

// From the kernel's counters, which may be some pages behind.
uint64_t anonymous_bytes_about() { return read_number("/proc/self/status", "RssAnon:") * 1024; }

uint64_t measure() {
  const uint64_t now = anonymous_bytes();
  const uint64_t heap = now > baseline_ ? now - baseline_ : 0;
  if (heap > peak_) peak_ = heap;
  return heap;
}

void add_point(uint64_t time_us) {
  const uint64_t heap = measure();
  if (points_ < 4 * kCurvePoints) curve_[points_++] = {time_us, heap};
}

void look() {
  const uint64_t about = anonymous_bytes_about();
  if (about > baseline_ + peak_ + kWorthMeasuring && about - baseline_ > peak_ + peak_ / 100) measure();
}

// What is due before the recorded time comes to `time_us`: trims, also where nothing else happens, and points of the curve.
void pass_time(uint64_t time_us) {
  while (next_trim_us_ <= time_us) {
    played_us_ = next_trim_us_;
    measure();
    malloc_trim(0);
    next_trim_us_ += trim_us_;
  }
  played_us_ = time_us;
  if (time_us < next_point_us_) return;
  add_point(time_us);
  next_point_us_ = time_us + point_step_us_;
}

void touch(char* block, const Operation& operation) {
  if (!block || !operation.size) return;
  if (operation.touch_pages == kTouchAll) {
    for (uint64_t at = 0; at < operation.size; at += kPage) static_cast<volatile char*>(block)[at] = 1;
    static_cast<volatile char*>(block)[operation.size - 1] = 1;
    return;
  }
  static_cast<volatile char*>(block)[0] = 1;
  const uint64_t first = (kPage - reinterpret_cast<uint64_t>(block) % kPage) % kPage;
  for (uint64_t i = 0, at = first; i < operation.touch_pages && at + kPage <= operation.size; i++, at += kPage)
    static_cast<volatile char*>(block)[at] = 1;
}

void keep(const Operation& operation, void* block) {
  if (!block && operation.size) failed_++;
  slots_[operation.slot] = block;
  touch(static_cast<char*>(block), operation);
}

void play(const Operation& operation) {
  void*& slot = slots_[operation.slot];
  switch (operation.play) {
    case Play::malloc: keep(operation, malloc(operation.size)); break;
    case Play::calloc: keep(operation, calloc(1, operation.size)); break;
    case Play::aligned: keep(operation, memalign(1ull << operation.log2_alignment, operation.size)); break;
    case Play::realloc: keep(operation, realloc(slot, operation.size)); break;
    case Play::free:
      free(slot);
      slot = nullptr;
      break;
    case Play::measure: add_point(operation.time_us); break;
    default: break;
  }
}

void futex(uint32_t* word, int what, uint32_t value) { syscall(SYS_futex, word, what, value, nullptr, nullptr, 0); }

void wait_for_turn(Thread& thread) {
  for (int spins = 0; !__atomic_load_n(&thread.turn, __ATOMIC_ACQUIRE); spins++)
    if (spins > 200) futex(&thread.turn, FUTEX_WAIT_PRIVATE, 0);
  __atomic_store_n(&thread.turn, 0, __ATOMIC_RELAXED);
}

void give_turn(Thread& thread) {
  __atomic_store_n(&thread.turn, 1, __ATOMIC_RELEASE);
  futex(&thread.turn, FUTEX_WAKE_PRIVATE, 1);
}

void* run_thread(void* of);

void start(uint32_t id) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stacks_ + id * kStackBytes, kStackBytes);
  errno = pthread_create(&threads_[id].handle, &attributes, run_thread, &threads_[id]);
  if (errno) fail("a thread cannot be made");
  threads_[id].started = true;
}

// Plays on as long as the calls are this thread's. False: it has ended.
bool play_own(uint32_t id) {
  for (;;) {
    const Operation& operation = operations_[at_];
    if (operation.thread != id) return true;
    pass_time(operation.time_us);
    if (at_ % kLookEvery == 0) look();
    play(operation);
    if (operation.play == Play::end) return false;
    at_++;
    if (operation.play == Play::thread_end && id) return false;
  }
}

// The main thread has the turn whenever no other has: it starts threads, and joins those that have ended, so that the caches of
// one are given back before the next call is played.
void hand_to_main() { give_turn(threads_[0]); }

void* run_thread(void* of) {
  const auto id = static_cast<uint32_t>(static_cast<Thread*>(of) - threads_);
  for (;;) {
    wait_for_turn(threads_[id]);
    if (!play_own(id)) break;
    const uint32_t next = operations_[at_].thread;
    // Straight to the next, where it is there already.
    if (next && threads_[next].started)
      give_turn(threads_[next]);
    else
      hand_to_main();
  }
  threads_[id].started = false;
  hand_to_main();
  return nullptr;
}

void run_main() {
  uint32_t ended = 0;
  for (;;) {
    if (ended) pthread_join(threads_[ended].handle, nullptr), ended = 0;
    if (!play_own(0)) return;
    const uint32_t next = operations_[at_].thread;
    if (!threads_[next].started) start(next);
    const uint64_t before = at_;
    give_turn(threads_[next]);
    wait_for_turn(threads_[0]);
    // The thread that gave the turn back may have ended: it was the one that played last.
    if (at_ > before && operations_[at_ - 1].play == Play::thread_end) ended = operations_[at_ - 1].thread;
  }
}

void* shared_memory(uint64_t bytes) {
  const int fd = memfd_create("heapspy-replayer", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail("memory for the replay itself");
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) fail("memory for the replay itself");
  close(fd);
  return at;
}

void map_operations(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) fail(path);
  void* at = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail(path);
  close(fd);
  header_ = static_cast<const OperationsHeader*>(at);
  operations_ = reinterpret_cast<const Operation*>(header_ + 1);
  if (static_cast<size_t>(status.st_size) < sizeof *header_ ||
      memcmp(header_->magic, kOperationsMagic, sizeof kOperationsMagic) != 0)
    errno = EINVAL, fail(path);
}

// glibc's own description of its arenas. Allocates: after the last measurement.
long count_arenas() {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* file = open_memstream(&text, &bytes);
  if (!file || malloc_info(0, file) != 0 || fclose(file) != 0 || !text) return -1;
  long arenas = 0;
  for (const char* at = text; (at = strstr(at, "<heap nr=")); at++) arenas++;
  return arenas;
}

}  // namespace

// What allocators ask for the time.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!base_ns_ || clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID)
    return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  const uint64_t now = base_ns_ + played_us_ * 1000;
  time->tv_sec = static_cast<time_t>(now / 1000000000u);
  time->tv_nsec = static_cast<long>(now % 1000000000u);
  return 0;
}

int main(int count, char** words) {
  if (count < 2) return dprintf(STDERR_FILENO, "usage: heapspy-replayer OPERATIONS [TRIM_US]\n"), 2;
  map_operations(words[1]);
  if (count > 2) next_trim_us_ = trim_us_ = strtoull(words[2], nullptr, 10);
  slots_ = static_cast<void**>(shared_memory((header_->slots + 1ull) * sizeof(void*)));
  threads_ = static_cast<Thread*>(shared_memory(header_->threads * sizeof(Thread)));
  stacks_ = static_cast<char*>(shared_memory(header_->threads * kStackBytes));
  curve_ = static_cast<Point*>(shared_memory(4 * kCurvePoints * sizeof(Point)));
  point_step_us_ = operations_[header_->operations - 1].time_us / kCurvePoints + 1;
  threads_[0].started = true;
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  const uint64_t began = real_ns();
  base_ns_ = began;
  baseline_ = anonymous_bytes();
  if (!baseline_) fail("/proc/self/smaps_rollup");
  run_main();
  end_ = measure();
  const uint64_t wall = real_ns() - began;
  getrusage(RUSAGE_SELF, &after);
  const auto us = [](const timeval& time) { return time.tv_sec * 1000000ll + time.tv_usec; };
  for (uint32_t i = 0; i < points_; i++)
    dprintf(STDOUT_FILENO, "curve %llu %llu\n", static_cast<unsigned long long>(curve_[i].time_us),
            static_cast<unsigned long long>(curve_[i].bytes));
  dprintf(STDOUT_FILENO, "peak %llu\nend %llu\noperations %llu\nfailed %llu\nwall_us %llu\ncpu_us %lld\nfaults %ld\n",
          static_cast<unsigned long long>(peak_), static_cast<unsigned long long>(end_),
          static_cast<unsigned long long>(header_->operations), static_cast<unsigned long long>(failed_),
          static_cast<unsigned long long>(wall / 1000),
          us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime),
          after.ru_minflt - before.ru_minflt);
  dprintf(STDOUT_FILENO, "arenas %ld\n", count_arenas());
  _exit(0);
}
