// What a 64-bit ELF file says about who will answer malloc in it.
#pragma once
#include <string>
#include <vector>

namespace heapspy::process {

struct ElfFacts {
  bool readable = false;            // a 64-bit ELF file of this byte order whose dynamic symbols could be read
  std::vector<std::string> needed;  // DT_NEEDED
  bool defines_malloc = false;      // exports malloc: answers before every library that is loaded after it
  std::string own_allocator;        // "jemalloc", "tcmalloc", "mimalloc": linked in, by their own functions' names; ""
  bool has_asan = false;            // AddressSanitizer's runtime inside, or among `needed`
};

// Total: whatever the file holds. Reads its section headers and symbols.
ElfFacts read_elf_facts(const std::string& path);

}  // namespace heapspy::process
