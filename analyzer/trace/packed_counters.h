// The counters of threads, made small and whole again: the payload of a `packed_counters` chunk (format/layout.h, FORMAT.md).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heapspy/format/layout.h"

namespace heapspy::trace {

std::string pack_counters(std::span<const format::ThreadCounters>);
// Reads bytes that may be damaged. False: they are no such payload; `to` is as it was then.
bool unpack_counters(std::string_view payload, std::vector<format::ThreadCounters>& to);

}  // namespace heapspy::trace
