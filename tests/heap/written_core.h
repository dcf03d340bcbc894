// Writes a core file of a process that stands still, as gcore would, but small: what is readable of its writable private
// memory, the first pages of its files, its threads.
#pragma once
#include <string>

#include "analyzer/process/target.h"

namespace heapspy::heap_test {

// Returns the bytes of the file.
std::string written_core(const process::Target& target, pid_t pid);

}  // namespace heapspy::heap_test
