// The `process` chunk and the header, as ProcessInfo; and whether the process still runs.
#pragma once
#include <string_view>

#include "analyzer/trace/reader.h"
#include "analyzer/trace/trace_file.h"

namespace heapspy::trace {

ProcessInfo decode_process(const format::FileHeader&, std::string_view payload);

// True if the process that the header names lives and has this file mapped. Asks the kernel (/proc).
bool still_runs(const format::FileHeader&, const TraceFile&);

}  // namespace heapspy::trace
