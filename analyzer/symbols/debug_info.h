// Functions, files and lines of addresses in one ELF file, from its DWARF and its symbol tables (libdw). The only file that
// knows libdw's readers.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/symbols/module_file.h"

namespace heapspy::symbols {

struct Location {
  std::string function;  // demangled; empty: not known
  std::string file;      // as the compiler was given it; empty: not known
  std::uint32_t line = 0;
  bool operator==(const Location&) const = default;
};

// Of one address: the function that was inlined deepest first, the one that the code belongs to last. Empty: nothing is known.
using Locations = std::vector<Location>;

struct ModuleLocations {
  std::vector<Locations> at;  // as the addresses
  bool debug_info = false;    // there is any; else functions are from symbol tables, lines unknown
  bool symbols = false;
};

// `addresses`: in the ELF file, ascending. Opens the file, reads what concerns these addresses, and forgets it: memory is that
// of the compilation units they lie in.
ModuleLocations locate(const FoundModule&, const SearchPaths&, std::span<const std::uint64_t> addresses);

}  // namespace heapspy::symbols
