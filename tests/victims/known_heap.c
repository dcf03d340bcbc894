// Builds a heap of the shape that its argument names, writes what malloc says of it (malloc_info, then mallinfo2), and obeys
// its input: t trims, anything else ends it. Nothing is allocated after the heap is built.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Since 2.33; scripts/check-glibcs also runs this over older ones.
#pragma weak mallinfo2

static pthread_barrier_t built, over;
static unsigned random_state = 5;
static unsigned next_random(unsigned* state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }
// Room for pointers that is not malloc's.
static void** pointers(size_t count) {
  return mmap(NULL, count * sizeof(void*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void* filled(size_t bytes) { return memset(malloc(bytes), 1, bytes); }

static void burst(int count, size_t bytes, int keep_every) {
  void** p = pointers(count);
  for (int i = 0; i < count; i++) p[i] = filled(bytes);
  for (int i = 0; i < count; i++)
    if (!keep_every || i % keep_every) free(p[i]);
}

static void random_sizes(unsigned* state, int count, unsigned most, unsigned freed_percent) {
  void** p = pointers(count);
  for (int i = 0; i < count; i++) p[i] = filled(16 + next_random(state) % most);
  for (int i = 0; i < count; i++)
    if (next_random(state) % 100 < freed_percent) free(p[i]);
}

static void* random_worker(void* number) {
  unsigned state = (unsigned)(long)number * 99 + 7;
  random_sizes(&state, 6000, 2000, 85);
  pthread_barrier_wait(&built);
  pthread_barrier_wait(&over);
  return NULL;
}
static void* top_worker(void* unused) {
  burst(9000, 1000, 0);
  pthread_barrier_wait(&built);
  pthread_barrier_wait(&over);
  return unused;
}
static void* mixed_worker(void* number) {
  unsigned state = (unsigned)(long)number * 7919 + 1;
  enum { kept = 500 };
  void** p = pointers(kept);
  for (int i = 0; i < 6000; i++) {
    unsigned kind = next_random(&state) % 100;
    size_t bytes = kind < 70 ? next_random(&state) % 300 : kind < 95 ? next_random(&state) % 5000 : next_random(&state) % 60000;
    unsigned at = next_random(&state) % kept;
    free(p[at]);
    p[at] = kind % 17 == 3 ? calloc(1, bytes + 1) : kind % 23 == 5 ? aligned_alloc(64, (bytes + 64) & ~63ul) : malloc(bytes);
    memset(p[at], 0x41, bytes < 64 ? bytes : 64);
  }
  if ((long)number % 4 == 0) p[0] = filled(200000 + (size_t)(long)number * 4096);
  pthread_barrier_wait(&built);
  pthread_barrier_wait(&over);
  return NULL;
}

// A thread's end frees its cache, its marks in it: into fast bins.
static void* ending_worker(void* unused) {
  for (size_t bytes = 24; bytes <= 104; bytes += 16) {
    void* p[7];
    for (int i = 0; i < 7; i++) p[i] = malloc(bytes);
    filled(600);  // its neighbour stays
    for (int i = 0; i < 7; i++) free(p[i]);
  }
  return unused;
}
// Takes two of each size from there and writes nothing into them; of one it leaves the rest there.
static void* heir(void* unused) {
  for (size_t bytes = 24; bytes <= 88; bytes += 16)
    for (int i = 0; i < 2; i++) {
      void* volatile block = malloc(bytes);
      (void)block;
    }
  pthread_barrier_wait(&built);
  pthread_barrier_wait(&over);
  return unused;
}

static void* busy_worker(void* number) {
  unsigned state = (unsigned)(long)number * 7919 + 1;
  void* held[200] = {0};
  for (int i = 0;; i++) {
    unsigned at = next_random(&state) % 200;
    free(held[at]);
    held[at] = filled(1 + next_random(&state) % 3000);
    if (i == 1000) pthread_barrier_wait(&built);
  }
  return NULL;
}

static void threads(int count, void* (*work)(void*)) {
  pthread_barrier_init(&built, NULL, count + 1);
  pthread_barrier_init(&over, NULL, count + 1);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  for (long i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work, (void*)i)) exit(2);
  }
  pthread_barrier_wait(&built);
}

static void build(const char* shape, int count) {
  if (!strcmp(shape, "nothing")) return;
  if (!strcmp(shape, "pinned_top")) {  // everything free but one block at the top
    void** p = pointers(50000);
    for (int i = 0; i < 50000; i++) p[i] = filled(1024);
    void* volatile pin = malloc(1);
    *(char*)pin = 1;
    for (int i = 0; i < 50000; i++) free(p[i]);
  }
  if (!strcmp(shape, "random")) random_sizes(&random_state, 20000, 4000, 70);
  if (!strcmp(shape, "arenas")) threads(8, random_worker);
  if (!strcmp(shape, "fast_bins")) burst(100000, 64, 100);
  if (!strcmp(shape, "every_64th")) burst(20000, 1000, 64);
  if (!strcmp(shape, "secondary_top") || !strcmp(shape, "main_top")) {
    void* volatile large = malloc(30 << 20);  // its free raises the dynamic thresholds
    free(large);
    if (shape[0] == 's')
      threads(1, top_worker);
    else
      burst(9000, 1000, 0);
  }
  if (!strcmp(shape, "busy")) threads(count, busy_worker);  // they never end
  if (!strcmp(shape, "ended")) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, ending_worker, NULL) || pthread_join(thread, NULL)) exit(2);
    burst(7, 40, 0);
    threads(1, heir);
  }
  if (!strcmp(shape, "mixed")) {
    void* volatile a = filled(1 << 20);
    void* volatile b = memset(memalign(4096, 3 << 20), 1, 3 << 20);
    void* volatile c = memset(memalign(64, 500000), 1, 500000);
    void* volatile d = memalign(1 << 16, 300000);  // never touched
    (void)a, (void)b, (void)c, (void)d;
    for (int i = 0; i < 10; i++) {  // fast bins of the main arena: more of one size than a thread cache takes
      void* p[20];
      for (int k = 0; k < 20; k++) p[k] = filled(24 + 16 * (size_t)i);
      for (int k = 0; k < 20; k++) free(p[k]);
    }
    void** p = pointers(3000);
    for (int i = 0; i < 3000; i++) p[i] = filled(40 + (size_t)i % 2700);
    for (int i = 0; i < 3000; i += 2) free(p[i]);
    if (count) threads(count, mixed_worker);
  }
}

int main(int argc, char** argv) {
  static char buffer[1 << 20];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  malloc_trim(0);  // its code is in memory from now on
  malloc_info(0, stdout);
  build(argc > 1 ? argv[1] : "nothing", argc > 2 ? atoi(argv[2]) : 0);
  printf("\n<heap-of-victim>\n");
  malloc_info(0, stdout);
  if (mallinfo2) {
    struct mallinfo2 info = mallinfo2();
    printf("mallinfo2 arena=%zu hblks=%zu hblkhd=%zu uordblks=%zu fordblks=%zu keepcost=%zu\n", info.arena, info.hblks,
           info.hblkhd, info.uordblks, info.fordblks, info.keepcost);
  }
  printf("ready\n");
  fflush(stdout);
  char order;
  while (read(0, &order, 1) == 1 && order == 't') {
    malloc_trim(0);
    if (write(1, "trimmed\n", 8) != 8) break;
  }
  _exit(0);
}
