// Which chunks pin: a page's free bytes that no trim returns, because blocks in use are on it too, in equal parts to these.
#pragma once
#include "analyzer/heap/heap_account.h"

namespace heapspy::heap {

// Fills pinned_by_chunk of every heap whose residency is known. Once, for the walk that was accepted: it costs as much as all
// the rest of the account.
void share_pinned(const HeapCopy&, const HeapWalk&, HeapAccount&);

}  // namespace heapspy::heap
