// Leaks known bytes at known places: "leak: NAME" ends the line of the call that allocates. With "grows", "leaks" or "saws" it
// shows how memory behaves over time instead.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void* volatile kept;

template <int size>
[[gnu::always_inline]] inline void leak_inlined() {
  kept = std::malloc(size);  // leak: inlined
}

[[gnu::noinline]] void leak_here() {
  for (int i = 0; i < 7; i++) leak_inlined<1000>();  // leak: here
  std::puts("leaked");
}

[[gnu::noinline]] void grow() {
  char* buffer = nullptr;
  for (std::size_t size = 4096; size <= 8 << 20; size += 4096) {
    buffer = static_cast<char*>(std::realloc(buffer, size));  // leak: grow
    buffer[size - 1] = 1;
  }
  std::free(buffer);
}

[[gnu::noinline]] void* make() {
  void* block = std::malloc(4000);  // leak: steady
  return std::memset(block, 1, 4000);
}

// Of ten blocks one is never freed. A round each tenth of a millisecond, on a busy machine, too: late ones follow at once.
[[gnu::noinline]] void leak_steadily() {
  static void* blocks[10];
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 3000; round++) {
    while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(100) * round) {
    }
    for (void*& block : blocks) block = make();
    for (int i = 1; i < 10; i++) std::free(blocks[i]);
  }
}

[[gnu::noinline]] void saw() {
  static void* blocks[3000];
  for (int round = 0; round < 10; round++) {
    for (void*& block : blocks) block = make();
    for (void* block : blocks) std::free(block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (!std::strcmp(what, "grows")) return grow(), 0;
  if (!std::strcmp(what, "leaks")) return leak_steadily(), 0;
  if (!std::strcmp(what, "saws")) return saw(), 0;
  leak_here();
  void* plugin = dlopen(what, RTLD_NOW);
  if (!plugin) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  reinterpret_cast<void (*)()>(dlsym(plugin, "leaky_run"))();
  return dlclose(plugin);
}
