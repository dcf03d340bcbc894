// Reads /proc/self/smaps (proc(5)) into MappingRecords.
#pragma once
#include <cstdint>

#include "tagged_payload.h"

namespace heapspy::smaps_scan {

// Appends a record and name per mapping; returns the sum of their RSS.
uint64_t append_mappings(int smaps, TaggedPayload& payload);

// Calls `visit` with each record that append_mappings put between these offsets. `visit` may append to the payload.
template <class Visit>
void for_each(const TaggedPayload& payload, uint64_t from, uint64_t to, Visit visit) {
  while (from + sizeof(format::MappingRecord) <= to) {
    const auto record = *reinterpret_cast<const format::MappingRecord*>(payload.data() + from);
    visit(record);
    from += sizeof record + format::align_up(record.name_bytes, 8);
  }
}

}  // namespace heapspy::smaps_scan
