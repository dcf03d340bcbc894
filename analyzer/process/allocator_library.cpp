#include "analyzer/process/allocator_library.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "analyzer/process/elf_facts.h"

namespace heapspy::process {

std::string allocator_library(std::span<const Mapping> mappings, const std::string& program) {
  for (const char* allocator : {"jemalloc", "tcmalloc", "mimalloc"})
    for (const Mapping& each : mappings) {
      const std::string_view name = std::string_view(each.name).substr(each.name.rfind('/') + 1);
      if (name.starts_with(std::string("lib") + allocator)) return allocator;
    }
  return program.empty() ? "" : read_elf_facts(program).own_allocator;
}

ElfClass elf_class_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ElfClass::unknown;
  unsigned char ident[EI_NIDENT]{};
  const ssize_t got = ::pread(fd, ident, sizeof ident, 0);
  ::close(fd);
  if (got != sizeof ident || std::memcmp(ident, ELFMAG, SELFMAG) != 0) return ElfClass::unknown;
  return ident[EI_CLASS] == ELFCLASS32   ? ElfClass::bits32
         : ident[EI_CLASS] == ELFCLASS64 ? ElfClass::bits64
                                         : ElfClass::unknown;
}

}  // namespace heapspy::process
