// A process's glibc heaps taken apart: layout chosen, chunks walked, pages counted, all of it checked.
#pragma once
#include <optional>
#include <vector>

#include "analyzer/heap/heap_account.h"
#include "analyzer/heap/walk_checks.h"

namespace heapspy::heap {

struct TakenApart {
  HeapCopy copy;
  HeapWalk walk;
  HeapAccount account;
  std::vector<Check> checks;
  bool layout_sure = true;  // else several agreed with all that was seen: walk.layout is the most likely of them

  bool proven() const;
  // Its chunks tile its heaps and come to what malloc counts. Else nothing is said of them.
  bool arena_proven(std::size_t arena) const {
    return account.arenas[arena].tiled && account.arenas[arena].held_bytes == account.arenas[arena].system_bytes;
  }
};

// `minor`: what the library's file says of its version (glibc_version.h).
TakenApart take_apart(HeapCopy copy, std::optional<unsigned> minor);

}  // namespace heapspy::heap
