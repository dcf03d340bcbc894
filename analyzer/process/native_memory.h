// What a JVM counts of its own memory (Native Memory Tracking), as its diagnostic command VM.native_memory prints it.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/process/live_process.h"

namespace heapspy::process {

// Of one tag: "Java Heap", "Thread", "GC" … In whole KiB, as the JVM rounds them.
struct NativeMemoryTag {
  std::string name;
  std::uint64_t reserved_bytes = 0, committed_bytes = 0;
  // Committed memory is one of these: blocks of malloc's, arenas (whose chunks are such blocks too), and mappings or stacks.
  std::uint64_t malloc_bytes = 0, arena_bytes = 0;
};

struct NativeMemory {
  std::uint64_t reserved_bytes = 0, committed_bytes = 0;
  std::vector<NativeMemoryTag> tags;  // in the JVM's order

  std::uint64_t malloc_bytes() const;  // of all tags, arenas included
};

// Whether the JVM was started with -XX:NativeMemoryTracking=summary or detail, by its command line and the variables that it
// reads options from: others need not be asked.
bool tracks_native_memory(const LiveProcess&);

// Has the JVM print it, as jcmd would. Throws TargetError as java_command(); nullopt where it says that it does not track.
std::optional<NativeMemory> native_memory(const LiveProcess&, std::chrono::milliseconds patience);

// nullopt: the text is no summary.
std::optional<NativeMemory> parse_native_memory(std::string_view text);

}  // namespace heapspy::process
