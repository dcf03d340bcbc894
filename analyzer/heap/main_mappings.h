// Pieces of the main heap that brk did not give: where brk fails (or heaps are of huge pages), malloc maps memory in its place
// and keeps no list of it. Such a piece begins at a page with a chunk, and its chain of chunks ends in the top chunk or in the
// fence that malloc leaves when it goes on elsewhere.
#pragma once
#include <vector>

#include "analyzer/heap/heap_copy.h"

namespace heapspy::heap {

struct AddressRange {
  std::uint64_t start = 0, end = 0;
};

// By address. `copy`: arenas and regions are filled.
std::vector<AddressRange> find_main_mappings(const process::Target&, const HeapCopy& copy);

// Writable private anonymous memory that is no region of `copy`, in whole pages.
std::vector<AddressRange> unclaimed_memory(const process::Target&, const HeapCopy& copy);

}  // namespace heapspy::heap
