// What glibc refuses or does specially, each kind in a thread of its own. Prints what the program sees: null or not, errno.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

volatile size_t zero = 0;
size_t too_much() { return static_cast<size_t>(PTRDIFF_MAX) + 1 + zero; }
size_t most() { return static_cast<size_t>(PTRDIFF_MAX) + zero; }

void say(const char* what, const void* block) {
  const int error = errno;
  printf("%s: %s %d\n", what, block ? "block" : "null", error);
  errno = 0;
}

// Fails 3 times; the block lives on and keeps its content.
void realloc_fails() {
  void* block = malloc(100);
  memset(block, 'x', 100);
  errno = 0;
  for (size_t bytes : {too_much(), most(), SIZE_MAX + zero}) say("realloc", realloc(block, bytes));
  printf("%c\n", static_cast<char*>(block)[99]);
  free(block);
}
// Frees 4 blocks.
void realloc_to_zero() {
  errno = 0;
  for (int i = 0; i < 4; i++) say("realloc(p, 0)", realloc(malloc(100), zero));
}
// 5 blocks.
void realloc_of_null() {
  errno = 0;
  for (size_t i = 0; i < 5; i++) {
    void* block = realloc(nullptr, 40 * i);
    say("realloc(NULL)", block);
    free(block);
  }
}
// Fails 3 times.
void calloc_overflows() {
  errno = 0;
  say("calloc", calloc(SIZE_MAX / 2 + zero, 3));
  say("calloc", calloc(3, SIZE_MAX / 2 + zero));
  say("calloc", calloc(too_much(), 1));
}
// Fails 2 times, one of them by overflow; a block resized once.
void reallocarray_overflows() {
  errno = 0;
  say("reallocarray", reallocarray(nullptr, SIZE_MAX / 2 + zero, 3));
  void* block = malloc(10);
  say("reallocarray", reallocarray(block, SIZE_MAX / 2 + zero, 3));
  block = reallocarray(block, 10, 10);
  say("reallocarray", block);
  free(block);
}
// posix_memalign refuses 3 alignments and 1 size.
void bad_alignment() {
  errno = 0;
  void* block = nullptr;
  for (size_t alignment : {zero, zero + 3, zero + 24}) printf("posix_memalign: %d\n", posix_memalign(&block, alignment, 100));
  printf("posix_memalign: %d\n", posix_memalign(&block, 64, too_much()));
  say("posix_memalign", block);
}
// Fails 3 times.
void huge_alignment() {
  errno = 0;
  say("memalign", memalign(too_much(), 100));
  say("valloc", valloc(too_much()));
  say("pvalloc", pvalloc(SIZE_MAX - 10 + zero));
}
// 6 blocks of 0 bytes; fails twice.
void at_the_limits() {
  errno = 0;
  for (int i = 0; i < 3; i++) {
    void* block = malloc(zero);
    say("malloc(0)", block);
    free(block);
    block = calloc(zero, 8);
    say("calloc(0)", block);
    free(block);
  }
  say("malloc", malloc(most()));
  say("malloc", malloc(SIZE_MAX + zero));
}
// Sizes around what a short record holds (2^17), and many MiB: 8 mallocs, 8 reallocs, all freed.
void large() {
  const size_t sizes[] = {131071, 131072, 131073, 1 << 20, 131070, 64 << 20, 131072 * 2, 1};
  void* blocks[8];
  for (int i = 0; i < 8; i++) blocks[i] = malloc(sizes[i]);
  for (int i = 0; i < 8; i++) blocks[i] = realloc(blocks[i], sizes[7 - i]);
  for (void* block : blocks) free(block);
}

struct Kind {
  const char* name;
  void (*body)();
};
const Kind kinds[] = {{"realloc fails", realloc_fails},
                      {"realloc 0", realloc_to_zero},
                      {"realloc null", realloc_of_null},
                      {"calloc over", calloc_overflows},
                      {"array over", reallocarray_overflows},
                      {"bad alignment", bad_alignment},
                      {"huge alignment", huge_alignment},
                      {"limits", at_the_limits},
                      {"large", large}};

void* start(void* argument) {
  const auto* kind = static_cast<const Kind*>(argument);
  pthread_setname_np(pthread_self(), kind->name);
  kind->body();
  return nullptr;
}

}  // namespace

int main() {
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  for (const Kind& kind : kinds) {
    pthread_t thread;
    pthread_create(&thread, nullptr, start, const_cast<Kind*>(&kind));
    pthread_join(thread, nullptr);
  }
  return 0;
}
