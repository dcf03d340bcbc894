// A plugin that allocates. libplugin_a.so is the same at the same addresses.
#include <stdlib.h>

void* plugin_allocate(void) {
  void* volatile block = malloc(77);
  return block;
}
