// Which pages of large blocks the program touches (HEAPSPY_TOUCH=on; for `heapspy replay`).
//
// A page that is in RAM when a block is given out may be there because an earlier block touched it. Such pages get a mark of
// 16 bytes, 8 at each end, before the program sees the block; when the block is given back, a page counts as touched if it is
// in RAM and bears no mark of its own. Pages that are not in RAM are not looked at, so none is faulted in. A mark says which
// page it is on: what realloc copies to another page is no mark there. Blocks of calloc get none, they must read as zeros.
//
// Any thread, inside hooks; allocates nothing; touches no errno.
#pragma once
#include <cstddef>
#include <cstdint>

#include "hot.h"

namespace heapspy {

class Pagemap;
class TaggedPayload;

namespace touch {

inline constexpr size_t kLeastBytes = 8192;  // smaller blocks hold one whole page at most

// Before the program sees `block`; its first `from` bytes hold what is the program's already.
HEAPSPY_COLD void mark_pages(void* block, size_t from = 0);
// Writes a record of how many whole pages of `block` were touched (FORMAT.md, kind 24), before that of its release. Returns
// the block's usable bytes.
HEAPSPY_COLD size_t tell_pages(void* block);

// A snapshot's item: which pages in RAM of [start, end) bear their marks still.
void append_marked(TaggedPayload& payload, Pagemap& pagemap, uint64_t start, uint64_t end);

}  // namespace touch
}  // namespace heapspy
