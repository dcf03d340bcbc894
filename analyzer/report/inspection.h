// What `heapspy inspect` shows: the heaps of a process or a core file taken apart, and around them what the kernel knows.
// inspection_json and inspection_text write it; they add nothing of their own. Filled by inspection_build.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/heap/pins.h"
#include "analyzer/heap/taken_apart.h"
#include "analyzer/process/allocator_counts.h"
#include "analyzer/process/core_file.h"
#include "analyzer/process/live_process.h"
#include "analyzer/process/memory_map.h"
#include "analyzer/process/native_memory.h"
#include "analyzer/report/report.h"

namespace heapspy::report {

// As ArenaReport, with what only a walk knows.
struct InspectedArena {
  std::uint32_t id = 0;  // from 1: main, secondary by address, mapped blocks
  std::string kind;      // "main", "secondary", "mmapped"
  std::optional<std::uint64_t> address;
  Count heaps;
  std::vector<std::uint32_t> threads;  // tids of those that are attached to it
  bool proven = true;                  // else its chunks did not fit together, and their figures are not known
  Bytes system_bytes, in_use_bytes, resident_bytes, trimmable_bytes, pinned_bytes, cached_bytes;
  Count blocks;                   // in use
  Bytes trimmable_at_most_bytes;  // were all of it resident: for a core, which does not say
  Bytes top_bytes, tcache_bytes, fastbin_bytes, unsorted_bytes, small_bytes, large_bytes;
  Bytes secondary_top_bytes;  // resident pages of a top that no trim returns; within cached
  Bytes in_use_resident_bytes;
  std::optional<heap::Plug> plug;
};

struct InspectedThread {
  std::uint32_t tid = 0;
  std::optional<std::uint64_t> arena;  // address
  Count cached_blocks;
  Bytes cached_bytes;
};

// A block of which the trace of its process knows where it came from.
struct KnownBlock {
  std::uint32_t site = 0;  // id in the trace; 0: recorded without a call stack
  std::uint32_t thread = 0;
  std::uint64_t size = 0;  // asked for
  Seconds age_s;
};

// A call stack of the trace, and what its blocks hold of the heap.
struct InspectedSite {
  std::uint32_t id = 0;
  std::vector<FrameReport> frames;  // innermost first
  std::uint64_t blocks = 0, live_bytes = 0, pinned_bytes = 0;
  Bytes returned_without_bytes;  // what a trim would return more, were they freed; of those that pin most
};

// What the trace of a recorded process adds.
struct InspectedTrace {
  std::string path;
  std::uint64_t known_blocks = 0, unknown_blocks = 0;             // of chunks in use: in the trace, or not
  std::vector<InspectedSite> sites;                               // those that pin most first, then by bytes
  std::map<std::uint64_t, KnownBlock> plugs;                      // by address of the block
  std::map<std::uint32_t, std::vector<FrameReport>> plug_frames;  // by site
};

// What a JVM counts of its own memory.
struct InspectedJvm {
  std::optional<process::NativeMemory> native_memory;
  std::optional<std::string> why_not;  // it is not known
};

struct Inspection {
  ProcessReport process;
  bool core = false;
  std::string path;        // of a core
  bool runs_glibc = true;  // else another allocator answers, and nothing is said about arenas
  std::optional<heap::TakenApart> heap;
  std::optional<process::AllocatorCounts> other_counts;  // of another allocator, where it shows them
  std::vector<InspectedArena> arenas;
  std::vector<InspectedThread> threads;  // by tid
  Bytes trim_prediction_bytes, trim_at_most_bytes;
  std::vector<heap::PinsOfSize> pinned_by_size;  // those that pin most
  std::optional<InspectedTrace> trace;           // nullopt: it does not run under the recorder, or the trace could not be read
  bool locked = false;                           // by mlockall: what trim returns is not predicted
  std::optional<InspectedJvm> jvm;               // ask_jvm(); nullopt: it is none, or was not asked
  RssReport rss;
  std::vector<process::KindTotal> kinds;  // of mappings; where there is no heap to show
  Seconds pause_s;                        // nullopt: nothing was stopped
  double walk_s = 0;
  // CPU time of this program in the two: what they take on a machine that does nothing else.
  Seconds pause_cpu_s;
  double walk_cpu_s = 0;
  std::uint64_t copied_bytes = 0;
  std::uint32_t attempts = 1;  // a thread that stands inside malloc may leave an arena amid a change: then once more
  std::vector<std::string> notes;

  // Sum over the arenas; nullopt where one of them is not known.
  Bytes sum(Bytes InspectedArena::*figure) const;
};

// Stops the process for as long as it takes to copy. Throws process::TargetError. `join_trace`: reads the trace that its
// recorder writes, if it has one.
Inspection inspect_process(const process::LiveProcess&, bool join_trace = false);
Inspection inspect_core(const process::CoreFile&);

// A later copy of the heaps of the same process in place of those that `inspection` has.
void look_again(Inspection& inspection, heap::HeapCopy copy);

// "main", "arena 3", "mapped blocks".
std::string arena_label(const InspectedArena&);

}  // namespace heapspy::report
