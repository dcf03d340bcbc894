// The right verdict: not malloc's. Executable mappings at random addresses, made and unmade, as a JIT or a loader of
// plug-ins may do: little of it is code; every one that stands alone also costs up to three pages of page tables, and
// whoever scans the address space pays for each. No allocator setting touches them: `heapspy maps` counts them by kind,
// with page tables and the time a scan takes.
//
// With --without, the mappings stand side by side, where page tables are shared.
//
// Arguments: mappings alive at once (default 4000), times that all of them are replaced (default 3).
#include <sys/mman.h>

#include <cstdint>
#include <random>
#include <vector>

#include "stage.h"

namespace {

constexpr std::size_t kBytes = 64 << 10;  // of which one page holds code

#if defined(__x86_64__)
constexpr unsigned char kReturn[] = {0xc3};
#elif defined(__aarch64__)
constexpr unsigned char kReturn[] = {0xc0, 0x03, 0x5f, 0xd6};
#else
#error "write down what `return` is on this machine"
#endif

// A function that returns at once, in a mapping at `wish` or wherever there is room.
void* make_code(void* wish) {
  void* code = mmap(wish, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) {
    std::perror("wandering_code: mmap");
    std::exit(1);
  }
  std::memcpy(code, kReturn, sizeof kReturn);
  if (mprotect(code, kBytes, PROT_READ | PROT_EXEC) != 0) {
    std::perror("wandering_code: mprotect");
    std::exit(1);
  }
  __builtin___clear_cache(static_cast<char*>(code), static_cast<char*>(code) + sizeof kReturn);
  reinterpret_cast<void (*)()>(code)();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[MAPPINGS [TIMES]] [--without]");
  const auto count = static_cast<std::size_t>(arguments.get(0, 4000));
  const long times = arguments.get(1, 3);
  stage::say("at the start");

  std::mt19937_64 random(42);
  // Anywhere in the lower half of the address space, 64 KiB aligned.
  auto anywhere = [&] { return reinterpret_cast<void*>(random() % (std::uint64_t{1} << 46) & ~(kBytes - 1)); };
  std::vector<void*> code(count, nullptr);
  for (long i = 0; i < times; i++) {
    for (void*& at : code) {
      if (at != nullptr) munmap(at, kBytes);
      at = make_code(arguments.without ? nullptr : anywhere());
    }
    stage::say("all mappings replaced");
  }

  stage::hold(arguments);
}
