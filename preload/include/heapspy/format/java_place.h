// Places in Java code, as the stack table has them beside the cells of layout.h. A place is the frames of the methods that one
// return address is in, or one place in a method's bytecode. Numbered in one row with the methods, which are described before
// it.
#pragma once
#include <cstdint>

#include "heapspy/format/layout.h"

namespace heapspy::format {

inline constexpr CellKind kPlaceCell{7};  // no frame: as CellKind::method, of PlaceEntries, innermost first; parent: how many
inline constexpr CellKind kJavaPlaceCell{8};  // the frames of a place; code: its number

struct PlaceEntry {
  std::uint32_t method;
  std::uint32_t line;  // of its source; 0: not known
};
static_assert(sizeof(PlaceEntry) == 8);
constexpr std::uint32_t place_cells(std::uint32_t entries) { return (entries + 1) / 2; }

}  // namespace heapspy::format
