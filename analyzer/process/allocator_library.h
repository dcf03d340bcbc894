// Which allocator other than glibc's answers malloc in a process, by what is mapped into it.
#pragma once
#include <span>
#include <string>

#include "analyzer/process/mappings.h"

namespace heapspy::process {

// "jemalloc", "tcmalloc", "mimalloc": a library of that name is mapped, or the program (its file at `program`, may be "")
// defines the allocator's own functions. "": neither.
std::string allocator_library(std::span<const Mapping> mappings, const std::string& program);

enum class ElfClass { bits32, bits64, unknown };
ElfClass elf_class_of(const std::string& path);

}  // namespace heapspy::process
