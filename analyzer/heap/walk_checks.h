// How a walk proves itself: what malloc counts on its own must come out of the chunks.
#pragma once
#include <string>
#include <vector>

#include "analyzer/heap/heap_account.h"

namespace heapspy::heap {

struct Check {
  std::string name;
  bool ok = false;
  std::string detail;  // figures on both sides
};

std::vector<Check> check_walk(const HeapCopy&, const HeapWalk&, const HeapAccount&);

}  // namespace heapspy::heap
