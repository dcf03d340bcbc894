// operator new that throws through whoever interposes it, and new_handlers that free memory and let it retry.
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

namespace {

volatile size_t zero = 0;
size_t too_much() { return static_cast<size_t>(PTRDIFF_MAX) - 100 + zero; }

template <class Call>
bool throws(Call call) {
  try {
    call();
    return false;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

// 10 times each: new and new[] and both with alignment throw; between them a block of 50 bytes comes and goes.
void throw_often() {
  int thrown = 0;
  for (int i = 0; i < 10; i++) {
    thrown += throws([] { return ::operator new(too_much()); });
    thrown += throws([] { return ::operator new[](too_much()); });
    thrown += throws([] { return ::operator new (too_much(), std::align_val_t{64}); });
    thrown += throws([] { return ::operator new[](too_much(), std::align_val_t{64}); });
    ::operator delete(::operator new(50));
  }
  printf("thrown %d\n", thrown);
}

// 10 times each: nothrow forms give null.
void give_null() {
  int null = 0;
  for (int i = 0; i < 10; i++) {
    null += ::operator new(too_much(), std::nothrow) == nullptr;
    null += ::operator new[](too_much(), std::nothrow) == nullptr;
    null += ::operator new (too_much(), std::align_val_t{64}, std::nothrow) == nullptr;
    ::operator delete(::operator new(60), std::nothrow);
  }
  printf("null %d\n", null);
}

void* ballast;
int handled;

// No address space for another 64 MiB until the ballast is freed.
void free_ballast() {
  handled++;
  if (!ballast) throw std::bad_alloc();
  free(ballast);
  ballast = nullptr;
}

// Without stdio, which would allocate.
rlim_t address_space_in_use() {
  char text[64] = {};
  const int file = open("/proc/self/statm", O_RDONLY);
  if (read(file, text, sizeof text - 1) <= 0) abort();
  close(file);
  return strtoul(text, nullptr, 10) * 4096;
}

void retry() {
  constexpr size_t kLarge = 64 << 20;
  ballast = malloc(kLarge);
  const rlimit limit = {address_space_in_use() + kLarge / 2, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  std::set_new_handler(free_ballast);
  void* block = ::operator new(kLarge);
  ::operator delete(block);
  const bool thrown = throws([] { return ::operator new(too_much()); });
  std::set_new_handler(nullptr);
  ::operator delete(::operator new(70));
  printf("handled %d, thrown %d\n", handled, thrown);
}

struct Kind {
  const char* name;
  void (*body)();
};

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
  for (Kind kind : {Kind{"t-throws", throw_often}, Kind{"t-null", give_null}, Kind{"t-retries", retry}}) {
    pthread_t thread;
    pthread_create(&thread, nullptr, start, &kind);
    pthread_join(thread, nullptr);
  }
  return 0;
}
