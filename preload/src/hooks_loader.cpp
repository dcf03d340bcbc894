// What tells that code has gone: another library may come to the same addresses.
#include <dlfcn.h>

#include "hot.h"
#include "recorder.h"

using namespace heapspy;

HEAPSPY_EXPORT int dlclose(void* handle) noexcept {
  static int (*next)(void*);
  if (!next) next = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "dlclose"));
  if (!next) return -1;
  if (!recorder || !recorder->alive || options.stacks == format::Stacks::none) return next(handle);
  int result;
  {
    const auto unloading = recorder->modules.unloading();
    result = next(handle);
  }
  if (recorder->alive) recorder->modules.look_for_unloaded();
  return result;
}
