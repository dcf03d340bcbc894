// Cells of the stack table, made small and whole again: the payload of a `packed_stacks` chunk (format/layout.h, FORMAT.md).
// One byte a cell is usual: stacks share their frames, and most cells are the callees of the cell before.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heapspy/format/layout.h"

namespace heapspy::trace {

// `cells`: at most format::kMostPackedCells, numbered from `first`.
std::string pack_cells(std::uint32_t first, std::span<const format::StackCell> cells);

// Reads bytes that may be damaged: total, and never more memory than the payload's length allows. False: it is no payload; `to`
// is empty then.
bool unpack_cells(std::string_view payload, std::uint32_t& first, std::vector<format::StackCell>& to);

}  // namespace heapspy::trace
