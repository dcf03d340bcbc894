// The right verdict: nothing to mend. Three blocks of 1024 bytes, to show what a block costs in glibc: each is a chunk
// of 1040 bytes (1024 asked for, 8 of header, rounded up to 16), so the addresses are 1040 apart, and the word before
// each block holds the chunk's size with three flags in its low bits: 0x411 = 1040 | P.
//
//   P (1)  the chunk before is in use       M (2)  the chunk is a mapping of its own
//   A (4)  the chunk is in a secondary arena
//
// The last two chunks show the other flags: 256 KiB is beyond the mmap threshold, and another thread has its own arena.
#include <malloc.h>

#include <thread>

#include "stage.h"

namespace {

// glibc's chunk header: the word before the block (malloc/malloc.c, struct malloc_chunk).
std::size_t size_word(const void* block) {
  std::size_t word;
  std::memcpy(&word, static_cast<const char*>(block) - sizeof word, sizeof word);
  return word;
}

void show(const char* what, void* block, std::size_t asked) {
  const std::size_t word = size_word(block);
  const std::size_t chunk = word & ~std::size_t{7};
  std::printf("%-22s %p  size word 0x%-6zx chunk %7zu  %c%c%c  usable %7zu  overhead %4zu\n", what, block, word, chunk,
              word & 4 ? 'A' : '-', word & 2 ? 'M' : '-', word & 1 ? 'P' : '-', malloc_usable_size(block), chunk - asked);
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[BYTES]");
  const auto bytes = static_cast<std::size_t>(arguments.get(0, 1024));
  std::setvbuf(stdout, nullptr, _IONBF, 0);  // no buffer of stdio between our blocks

  void* chunk[3];
  for (void*& block : chunk) {
    block = std::malloc(bytes);
    if (block == nullptr) return 1;
  }
  for (void* block : chunk) show("main heap", block, bytes);
  std::printf("distances: %td and %td bytes\n", static_cast<char*>(chunk[1]) - static_cast<char*>(chunk[0]),
              static_cast<char*>(chunk[2]) - static_cast<char*>(chunk[1]));

  void* mapped = std::malloc(256 << 10);
  if (mapped == nullptr) return 1;
  show("mapping of its own", mapped, 256 << 10);
  void* elsewhere = nullptr;
  std::thread([&] { elsewhere = std::malloc(bytes); }).join();
  if (elsewhere == nullptr) return 1;
  show("arena of a thread", elsewhere, bytes);

  stage::hold(arguments);
  for (void* block : chunk) std::free(block);
  std::free(mapped);
  std::free(elsewhere);
}
