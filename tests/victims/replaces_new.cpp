// Replaces the plain operator new and delete, with a header before each block, and leaves the other forms to the C++ runtime,
// which comes back to these (C++17 [new.delete]). Each thread: one form, a number of times.
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr uint64_t kMark = 0x4ead'e44e'ade4'0001;
long made, given_back;

}  // namespace

void* operator new(size_t bytes) {
  auto* head = static_cast<uint64_t*>(malloc(bytes + 16));
  if (!head) throw std::bad_alloc();
  head[0] = kMark;
  made++;
  return head + 2;
}

void operator delete(void* block) noexcept {
  if (!block) return;
  uint64_t* head = static_cast<uint64_t*>(block) - 2;
  if (head[0] != kMark) __builtin_trap();
  head[0] = 0;
  given_back++;
  free(head);
}

namespace {

void* work(void*) {
  pthread_setname_np(pthread_self(), "t-replaced");
  for (int i = 0; i < 10; i++) {
    ::operator delete(::operator new(50));
    ::operator delete(::operator new(50), 50);
    ::operator delete(::operator new(50, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](50));
    ::operator delete[](::operator new[](50), 50);
    ::operator delete[](::operator new[](50, std::nothrow), std::nothrow);
  }
  return nullptr;
}

}  // namespace

int main() {
  pthread_t thread;
  pthread_create(&thread, nullptr, work, nullptr);
  pthread_join(thread, nullptr);
  printf("%ld %ld\n", made, given_back);
  return 0;
}
