// Which entry points change errno when they succeed. Often enough to meet every slow path of a recorder.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace {

long changes[16];

template <class Call>
auto watched(int entry, Call call) {
  errno = 77;
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    changes[entry] += errno != 77;
  } else {
    auto result = call();
    changes[entry] += errno != 77;
    return result;
  }
}

void* work(void*) {
  for (int i = 0; i < 30000; i++) {
    void* block = watched(0, [] { return malloc(30); });
    block = watched(1, [&] { return realloc(block, 300); });
    watched(2, [&] { free(block); });
    block = watched(3, [] { return calloc(3, 50); });
    watched(4, [&] { return malloc_usable_size(block); });
    watched(2, [&] { free(block); });
    watched(5, [&] { return posix_memalign(&block, 64, 100); });
    watched(2, [&] { free(block); });
    block = watched(6, [] { return memalign(64, 100); });
    watched(2, [&] { free(block); });
    block = watched(7, [] { return aligned_alloc(64, 128); });
    watched(2, [&] { free(block); });
    block = watched(8, [] { return ::operator new(64); });
    watched(9, [&] { ::operator delete(block); });
    block = watched(10, [] { return ::operator new[](64, std::align_val_t{64}); });
    watched(11, [&] { ::operator delete[](block, std::align_val_t{64}); });
    watched(2, [] { free(nullptr); });
    block = watched(12, [] { return valloc(100); });
    watched(2, [&] { free(block); });
  }
  // Where they fail, errno is ENOMEM.
  volatile size_t hidden = ~static_cast<size_t>(0) / 2 + 1;
  const size_t too_much = hidden;
  errno = 77;
  changes[13] += malloc(too_much) != nullptr || errno != ENOMEM;
  errno = 77;
  changes[13] += calloc(too_much, 3) != nullptr || errno != ENOMEM;
  void* block = malloc(10);
  errno = 77;
  changes[13] += realloc(block, too_much) != nullptr || errno != ENOMEM;
  errno = 77;
  changes[13] += reallocarray(block, too_much, 3) != nullptr || errno != ENOMEM;
  free(block);
  errno = 77;
  changes[13] += posix_memalign(&block, 3, 10) != EINVAL || errno != 77;
  errno = 77;
  changes[13] += posix_memalign(&block, 64, too_much) != ENOMEM;
  changes[14] += errno != 77;  // glibc changes it
  return nullptr;
}

}  // namespace

int main() {
  work(nullptr);
  for (int i = 0; i < 5; i++) {  // the first call of a thread is its slowest
    pthread_t thread;
    pthread_create(&thread, nullptr, work, nullptr);
    pthread_join(thread, nullptr);
  }
  for (long number : changes) printf("%ld ", number);
  puts("");
  return 0;
}
