// Reads this process's mappings and their RSS into MappingRecords (proc(5)).
//
// The kernel formats 25 lines of smaps per mapping: half of what recording a short process costs. So a small address space is
// read from /proc/self/maps, and its pages are counted in /proc/self/pagemap. A large one is read from smaps.
#pragma once
#include <cstdint>

#include "pagemap.h"
#include "tagged_payload.h"

namespace heapspy::mapping_scan {

// Appends a record and name per mapping; returns the sum of their RSS.
uint64_t append_mappings(Pagemap& pagemap, TaggedPayload& payload);

// Calls `visit` with a copy of each record that append_mappings put between these offsets. `visit` may append to the payload.
template <class Visit>
void for_each(const TaggedPayload& payload, uint64_t from, uint64_t to, Visit visit) {
  while (from + sizeof(format::MappingRecord) <= to) {
    const auto record = *reinterpret_cast<const format::MappingRecord*>(payload.data() + from);
    visit(record);
    from += sizeof record + format::align_up(record.name_bytes, 8);
  }
}

}  // namespace heapspy::mapping_scan
