// A thread of 100 mallocs, 100 news and their ends; says what the second interposer (lib_second.c) saw of them, where it is
// there.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

using Ask = long (*)();
Ask mallocs, frees;
long seen_mallocs, seen_frees;

void* work(void*) {
  pthread_setname_np(pthread_self(), "t-second");
  const long before = mallocs ? mallocs() : 0, freed_before = frees ? frees() : 0;
  void *blocks[100], *objects[100];
  for (void*& block : blocks) block = malloc(48);
  for (void*& object : objects) object = ::operator new(56);
  for (void* block : blocks) free(block);
  for (void* object : objects) ::operator delete(object);
  seen_mallocs = mallocs ? mallocs() - before : 0;
  seen_frees = frees ? frees() - freed_before : 0;
  return nullptr;
}

}  // namespace

int main() {
  mallocs = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "second_mallocs"));
  frees = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "second_frees"));
  pthread_t thread;
  pthread_create(&thread, nullptr, work, nullptr);
  pthread_join(thread, nullptr);
  printf("%ld mallocs, %ld frees\n", seen_mallocs, seen_frees);
  return 0;
}
