// The first page of a trace, without the rest: enough to see whose it is.
#pragma once
#include <string>

#include "analyzer/trace/trace_file.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

// Throws Unreadable (reader.h) as a Reader of the file would. What the fields say is not held against anything.
format::FileHeader glance(const TraceFile&);
format::FileHeader glance(const std::string& path);

}  // namespace heapspy::trace
