// A JVM's own books (Native Memory Tracking) beside the kernel's and malloc's.
#pragma once
#include "analyzer/report/inspection.h"
#include "analyzer/report/json_values.h"
#include "analyzer/report/screen.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {

// What of RSS the JVM does not count: what it never sees (libraries and files, malloc's free memory), and blocks of malloc's
// that others than the JVM asked for.
struct BeyondNativeMemory {
  std::vector<PartReport> parts;  // largest first
  std::uint64_t bytes = 0;        // their sum
  std::int64_t difference = 0;    // RSS less what the JVM has committed
  std::int64_t not_resident = 0;  // bytes less difference: committed and not in RAM; below 0: more in RAM than it says
};

// nullopt: the JVM said nothing, or malloc's heaps are not known.
std::optional<BeyondNativeMemory> beyond_native_memory(const Inspection&);

// Of a process that is a JVM (else does nothing): asks it, if it tracks its memory.
void ask_jvm(Inspection&, const process::LiveProcess&);

std::string beyond_text(const Inspection&);         // "RSS 321.0 MiB, NMT 87.3 MiB: …"; "" where nothing is known
Lines jvm_lines(const Inspection&, const Screen&);  // the JVM's own table, or why there is none
Json jvm_json(const Inspection&);                   // null: no JVM

}  // namespace heapspy::report
