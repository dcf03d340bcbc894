// Where a library that a live process has loaded keeps what it exports: read from the process's memory, so that a file which
// was replaced meanwhile does not mislead.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "analyzer/process/live_process.h"
#include "analyzer/process/mappings.h"

namespace heapspy::process {

// The mapping with which the copy of `library` begins that also has `address`; nullptr: there is none. A library may be
// loaded twice (dlmopen).
const Mapping* first_mapping_of(std::span<const Mapping> mappings, const std::string& library, std::uint64_t address);

// Address of the function `name` in the library that is loaded at `base` (its ELF header). Total: the memory may hold
// anything. nullopt: not exported, or (a static program) there are no dynamic symbols.
std::optional<std::uint64_t> exported_function(const LiveProcess&, std::uint64_t base, std::string_view name);
std::optional<std::uint64_t> exported_variable(const LiveProcess&, std::uint64_t base, std::string_view name);

}  // namespace heapspy::process
