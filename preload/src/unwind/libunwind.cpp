#include "libunwind.h"

#include <dlfcn.h>

#include "thread_state.h"

namespace heapspy::unwind::libunwind {

namespace {
int (*unw_backtrace)(void**, int) = nullptr;
}

bool open() {
  // What the loader allocates is not the program's. RTLD_LOCAL: the library exports names of libgcc's, too.
  Guarded guard;
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library) unw_backtrace = reinterpret_cast<int (*)(void**, int)>(dlsym(library, "unw_backtrace"));
  return is_open();
}

bool is_open() { return unw_backtrace != nullptr; }

int backtrace(void** to, int room) {
  Guarded guard;
  return unw_backtrace(to, room);
}

}  // namespace heapspy::unwind::libunwind
