// A dlsym that knows no _dl_find_object, as that of glibc before 2.35.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void* dlsym(void* handle, const char* name) {
  static void* (*real)(void*, const char*);
  if (!real) real = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (!real) real = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  return strcmp(name, "_dl_find_object") == 0 ? 0 : real(handle, name);
}
