#include "analyzer/exports/exports.h"

namespace heapspy::exports {

const char* name_of(Value value) {
  switch (value) {
    case Value::alloc_space: return "alloc_space";
    case Value::alloc_objects: return "alloc_objects";
    case Value::inuse_space: return "inuse_space";
    case Value::inuse_objects: return "inuse_objects";
    default: return "pinned_space";
  }
}

const char* unit_of(Value value) { return value == Value::alloc_objects || value == Value::inuse_objects ? "count" : "bytes"; }

std::optional<std::uint64_t> value_of(const report::SiteReport& site, Value value) {
  switch (value) {
    case Value::alloc_space: return site.bytes;
    case Value::alloc_objects: return site.allocations;
    case Value::inuse_space: return site.live_bytes;
    case Value::inuse_objects: return site.live_blocks;
    default: return site.pinned_bytes;
  }
}

}  // namespace heapspy::exports
