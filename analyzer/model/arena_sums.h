// From the parts of an arena's resident pages to its figures, and to those of the process.
#pragma once
#include "analyzer/model/arena_state.h"

namespace heapspy::model {

// What follows from `parts`, which may be nullopt.
void settle(ArenaFigures&);

// The sum is unknown where a summand is. Only `system` is not: pages that hold blocks of kind `other` are left out.
void add(const ArenaFigures& arena, ArenaFigures& process);

}  // namespace heapspy::model
