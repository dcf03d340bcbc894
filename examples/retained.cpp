// The right verdict: retained and trimmable, because of glibc's dynamic threshold.
//
// Blocks of 160 KB are beyond M_MMAP_THRESHOLD (128 KiB), so the first one is a mapping of its own. When it is freed, glibc
// raises the threshold to its size (and M_TRIM_THRESHOLD to twice that), and from then on such blocks come from the heap.
// A few small blocks live among them, so that the heap cannot shrink: whole free pages stay, 300 MB of them.
//
// `heapspy trim` returns nearly all now. MALLOC_TRIM_THRESHOLD_=131072 keeps it from happening: any fixed threshold
// switches the dynamic one off, and then every such block is a mapping that leaves when it is freed. It must be set
// before the program starts; glibc reads it once. MALLOC_ARENA_MAX changes nothing (one thread). It is not a leak: live
// returns to its base.
//
// Arguments: blocks (default 2000), bytes each (default 160 000).
#include <vector>

#include "stage.h"

namespace {

constexpr std::size_t kEntryBytes = 100;
constexpr long kBlocksPerEntry = 10;

char* allocate(std::size_t bytes) {
  auto* block = static_cast<char*>(std::malloc(bytes));
  if (block == nullptr) std::abort();
  std::memset(block, 1, bytes);
  return block;
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[BLOCKS [BYTES]]");
  const long count = arguments.get(0, 2000);
  const auto bytes = static_cast<std::size_t>(arguments.get(1, 160'000));
  stage::say("at the start");

  std::free(allocate(bytes));  // raises the threshold

  std::vector<char*> blocks;
  std::vector<char*> entries;
  blocks.reserve(static_cast<std::size_t>(count));
  entries.reserve(static_cast<std::size_t>(count / kBlocksPerEntry));
  for (long i = 1; i <= count; i++) {
    blocks.push_back(allocate(bytes));
    if (i % kBlocksPerEntry == 0) entries.push_back(allocate(kEntryBytes));
  }
  stage::say("everything allocated");

  for (char* block : blocks) std::free(block);
  stage::say("blocks freed, index entries alive");

  stage::hold(arguments);
  stage::keep(entries.data());  // they live to the end
}
