// Threads whose allocations are known exactly: each does what its comment says and nothing else.
#include <malloc.h>
#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>

namespace {

// The compiler may not reason about the block.
template <class T>
T* seen(T* block) {
  asm volatile("" : "+r"(block) : : "memory");
  return block;
}

size_t too_much() {
  size_t bytes = PTRDIFF_MAX;
  asm volatile("" : "+r"(bytes));
  return bytes + 1;
}

void* left_odd[500];
void* left_pages[10];
void* passed[300];

// 1000 mallocs of 1, 2, ... 1000 bytes; the odd sizes are freed, 500 stay.
void* by_malloc(void*) {
  void* blocks[1000];
  for (int i = 0; i < 1000; i++) blocks[i] = seen(malloc(static_cast<size_t>(i) + 1));
  for (int i = 0; i < 1000; i++)
    if (i % 2 == 0)
      free(blocks[i]);
    else
      left_odd[i / 2] = blocks[i];
  return nullptr;
}

// 200 callocs of 10 times 16 bytes, all freed.
void* by_calloc(void*) {
  void* blocks[200];
  for (void*& block : blocks) block = seen(calloc(10, 16));
  for (void* block : blocks) free(block);
  return nullptr;
}

// malloc(16), 99 reallocs to 32, 48, ... 1600 bytes, a free.
void* by_realloc(void*) {
  void* block = seen(malloc(16));
  for (size_t k = 2; k <= 100; k++) block = seen(realloc(block, 16 * k));
  free(block);
  return nullptr;
}

// 50 times 256 bytes at 64, 50 pages, 50 times 100 bytes at 32; all freed but 10 pages.
void* by_alignment(void*) {
  void *lines[50], *pages[50], *others[50];
  for (void*& block : lines)
    if (posix_memalign(&block, 64, 256)) abort();
  for (void*& block : pages) block = seen(aligned_alloc(4096, 4096));
  for (void*& block : others) block = seen(memalign(32, 100));
  for (void* block : lines) free(block);
  for (int i = 0; i < 50; i++)
    if (i < 10)
      left_pages[i] = pages[i];
    else
      free(pages[i]);
  for (void* block : others) free(block);
  return nullptr;
}

// 300 blocks of 64 bytes, freed by the next thread.
void* give(void*) {
  for (void*& block : passed) block = seen(malloc(64));
  return nullptr;
}
void* take(void*) {
  for (void* block : passed) free(block);
  return nullptr;
}

// 5 mallocs, 2 callocs and 1 realloc fail; malloc(40) freed; 3 times malloc(0) freed; realloc(NULL, 24), then realloc(p, 0),
// which frees; 7 free(NULL).
void* at_the_edge(void*) {
  for (int i = 0; i < 5; i++)
    if (seen(malloc(too_much()))) abort();
  for (int i = 0; i < 2; i++)
    if (seen(calloc(too_much(), 2))) abort();
  void* block = seen(malloc(40));
  if (seen(realloc(block, too_much()))) abort();
  free(block);
  for (int i = 0; i < 3; i++) free(seen(malloc(0)));
  void* fresh = seen(realloc(seen(static_cast<void*>(nullptr)), 24));
  if (void* rest = seen(realloc(fresh, 0))) free(rest);  // not every allocator frees it
  for (int i = 0; i < 7; i++) free(seen(static_cast<void*>(nullptr)));
  return nullptr;
}

struct Forty8 {
  char bytes[48];
};
struct alignas(64) Line {
  char bytes[64];
};

// 100 new of 48 bytes, 20 nothrow new[] of 100, 10 aligned new of 64; all deleted.
void* by_new(void*) {
  Forty8* plain[100];
  char* arrays[20];
  Line* lines[10];
  for (auto& object : plain) object = seen(new Forty8);
  for (auto& object : arrays) object = seen(new (std::nothrow) char[100]);
  for (auto& object : lines) object = seen(new Line);
  for (auto* object : plain) delete object;
  for (auto* object : arrays) delete[] object;
  for (auto* object : lines) delete object;
  return nullptr;
}

struct Job {
  const char* name;
  void* (*body)(void*);
};

void* start(void* argument) {
  const auto* job = static_cast<Job*>(argument);
  pthread_setname_np(pthread_self(), job->name);
  return job->body(nullptr);
}

}  // namespace

int main() {
  for (Job job :
       {Job{"t-malloc", by_malloc}, Job{"t-calloc", by_calloc}, Job{"t-realloc", by_realloc}, Job{"t-aligned", by_alignment},
        Job{"t-give", give}, Job{"t-take", take}, Job{"t-edge", at_the_edge}, Job{"t-new", by_new}}) {
    pthread_t thread;
    pthread_create(&thread, nullptr, start, &job);
    pthread_join(thread, nullptr);
  }
  seen(left_odd[0]);
  seen(left_pages[0]);
  return 0;
}
