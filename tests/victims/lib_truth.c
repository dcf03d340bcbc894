// When each call really reached the allocator. Preload it beneath the recorder, LD_PRELOAD="libheapspy.so libtruth.so", with
// TRUTH_OUT=FOLDER/: every thread writes FOLDER/PID.NUMBER, 16 bytes a call (tests/support/merge_truth.cpp reads them).
//
// The TSC is read before the real free and after the real allocation, so the calls on one address, sorted by it, are in the
// order in which they happened. Beneath the recorder, so that it hooks what it always hooks. x86-64 and glibc only; a forked
// child that does not exec is not logged.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

enum Operation { kFree = 1, kAllocation = 2, kReallocBegin = 3, kReallocEnd = 4 };

struct Entry {
  uint64_t tsc;
  uint64_t what;  // address | Operation
};

static const size_t kBytes = (size_t)1 << 30;  // of a file, sparse: 67 million calls
// Pages are made so many at a time: a fault every 256 calls would disturb the times of an eighth of the calls around it.
static const size_t kFirstRoom = (size_t)16 << 10, kRoom = (size_t)256 << 10;
static struct Entry* const kNoLog = (struct Entry*)1;

static _Thread_local struct Entry* next __attribute__((tls_model("initial-exec")));
static _Thread_local struct Entry* room_end __attribute__((tls_model("initial-exec")));
static _Thread_local struct Entry* end __attribute__((tls_model("initial-exec")));
static atomic_uint files;
static volatile uint32_t* parent;  // in memory that a forked child finds wiped

static uint64_t tsc(void) {
  uint32_t low, high;
  __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
  return (uint64_t)high << 32 | low;
}

static char* append(char* to, uint64_t number) {
  char digits[20];
  int count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while (number /= 10);
  while (count) *to++ = digits[--count];
  return to;
}

static void make_room(size_t bytes) {
  const int before = errno;
  char* from = (char*)room_end;
  if (bytes > (size_t)((char*)end - from)) bytes = (size_t)((char*)end - from);
  madvise(from, bytes, 23);  // MADV_POPULATE_WRITE; where it fails, the faults come one by one
  room_end = (struct Entry*)(from + bytes);
  errno = before;
}

static void open_log(void) {
  const int before = errno;
  next = kNoLog;
  const char* folder = getenv("TRUTH_OUT");
  if (!folder) return;
  if (!parent) {  // the first call of the process; there is one thread
    void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0) return;
    parent = page;
    *parent = 1;
  }
  char path[512];
  char* to = path;
  while (*folder && to < path + 400) *to++ = *folder++;
  to = append(to, (uint64_t)getpid());
  *to++ = '.';
  to = append(to, atomic_fetch_add(&files, 1));
  *to = 0;
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  struct Entry* log = MAP_FAILED;
  if (ftruncate(file, (off_t)kBytes) == 0) log = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (log == MAP_FAILED) return;
  log->tsc = (uint64_t)syscall(SYS_gettid);  // the first entry says whose it is
  next = log + 1;
  end = log + kBytes / sizeof *log;
  room_end = log;
  make_room(kFirstRoom);
  errno = before;
}

static void note(enum Operation operation, void* block) {
  if (!next) open_log();
  if (next == kNoLog || next == end || !*parent) return;
  if (next == room_end) make_room(kRoom);
  struct Entry* entry = next++;
  entry->tsc = tsc();
  entry->what = (uint64_t)block | operation;
}

static void* allocated(void* block) {
  if (block) note(kAllocation, block);
  return block;
}

void* malloc(size_t size) { return allocated(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return allocated(__libc_calloc(count, size)); }

void free(void* block) {
  if (block) note(kFree, block);
  __libc_free(block);
}

void* realloc(void* block, size_t size) {
  if (!block) return allocated(__libc_realloc(NULL, size));
  note(kReallocBegin, block);
  void* moved = __libc_realloc(block, size);
  note(kReallocEnd, moved ? moved : size ? block : NULL);
  return moved;
}

void* memalign(size_t alignment, size_t size) { return allocated(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return allocated(__libc_memalign(alignment, size)); }

int posix_memalign(void** to, size_t alignment, size_t size) {
  if (!alignment || alignment % sizeof(void*) || (alignment & (alignment - 1))) return EINVAL;
  const int before = errno;
  void* block = allocated(__libc_memalign(alignment, size));
  errno = before;
  if (!block) return ENOMEM;
  *to = block;
  return 0;
}

// Blocks are glibc's, whatever other allocator the program is linked with (malloc/malloc.c: the size is in the word before).
size_t malloc_usable_size(void* block) {
  if (!block) return 0;
  const size_t size = ((const size_t*)block)[-1];
  return (size & ~(size_t)7) - (size & 2 ? 2 : 1) * sizeof(size_t);
}
