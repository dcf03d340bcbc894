// Who this process is: what the trace's file name and its `process` chunk say. Remembered before the program can change its
// environment or its working folder.
#pragma once
#include <cstddef>
#include <cstdint>

#include "trace_file.h"

namespace heapspy::process_facts {

// Once, before the others.
void remember_start();
char** environment();   // as it was at the start
const char* program();  // last part of /proc/self/exe

// HEAPSPY_CHILDREN=none: turns the word in the environment into the one that keeps children quiet (false: back, before this
// process replaces itself by exec).
void keep_children_quiet(char* const* environment, bool quiet);

// Makes HEAPSPY_OUT absolute and keeps a copy. False (with a message) where that is impossible.
bool remember_out(const char* pattern);
// The pattern with %p %n %h %t %% filled in for this process.
void trace_path(char* to, size_t room, uint64_t start_realtime_ns);

// RSS now, from /proc/self/statm; 0 where that cannot be read. Allocates nothing.
uint64_t rss_bytes();

// Writes the `process` chunk, the first of the file.
void begin(TraceFile& file);

}  // namespace heapspy::process_facts
