// Blocks that malloc mapped for themselves. Nothing lists them: each begins a private anonymous mapping, or follows another
// one in it (the kernel joins neighbours), and shows by its header. malloc counts them, which says when all are found.
#pragma once
#include <vector>

#include "analyzer/heap/heap_copy.h"

namespace heapspy::heap {

// By address. `copy`: ring, parameters and regions are filled.
std::vector<MappedBlock> find_mapped_blocks(const process::Target&, const HeapCopy& copy);

}  // namespace heapspy::heap
