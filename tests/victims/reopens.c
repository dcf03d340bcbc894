// Opens a library that allocates, has it allocate, closes it, and again, 50 times: at the same address as a rule. Its file is
// replaced half-way and deleted at the end. Arguments: the library, a place for copies of it.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int copy(const char* from, const char* to) {
  static char bytes[1 << 20];
  FILE* in = fopen(from, "rb");
  FILE* out = fopen(to, "wb");
  if (!in || !out) return 0;
  const size_t size = fread(bytes, 1, sizeof bytes, in);
  const int whole = fwrite(bytes, 1, size, out) == size;
  fclose(in);
  return fclose(out) == 0 && whole;
}

int main(int count, char** arguments) {
  if (count < 3 || !copy(arguments[1], arguments[2])) return 2;
  for (int i = 0; i < 50; i++) {
    if (i == 25 && (unlink(arguments[2]) || !copy(arguments[1], arguments[2]))) return 3;
    void* library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    if (!library) return 4;
    void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(library, "deep_malloc");
    if (!allocate) return 5;
    free(allocate(100));
    if (i == 49) unlink(arguments[2]);
    dlclose(library);
  }
  puts("reopened");
  return 0;
}
