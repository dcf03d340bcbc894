#include "analyzer/process/elf_facts.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace heapspy::process {
namespace {

constexpr std::uint64_t kLongestTable = 64 << 20;  // no symbol table of a sane program is longer

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  // Empty where the file ends before.
  std::string bytes(std::uint64_t at, std::uint64_t count) const {
    if (fd_ < 0 || count > kLongestTable || at > INT64_MAX) return {};
    std::string to(count, '\0');
    std::size_t got = 0;
    while (got < to.size()) {
      const ssize_t more = ::pread(fd_, to.data() + got, to.size() - got, static_cast<off_t>(at + got));
      if (more <= 0) return {};
      got += static_cast<std::size_t>(more);
    }
    return to;
  }
  template <typename Struct>
  std::vector<Struct> structs(std::uint64_t at, std::uint64_t count) const {
    const std::string raw = count <= kLongestTable / sizeof(Struct) ? bytes(at, count * sizeof(Struct)) : "";
    std::vector<Struct> list(raw.size() / sizeof(Struct));
    if (!list.empty()) std::memcpy(list.data(), raw.data(), list.size() * sizeof(Struct));
    return list;
  }

 private:
  int fd_;
};

std::string_view name_at(const std::string& strings, std::uint64_t at) {
  if (at >= strings.size()) return {};
  return {strings.data() + at, ::strnlen(strings.data() + at, strings.size() - at)};
}

// Functions that no other library has.
const char* allocator_with(std::string_view name) {
  for (const char* jemalloc : {"mallocx", "je_mallocx", "_rjem_mallocx", "je_malloc", "_rjem_malloc"})
    if (name == jemalloc) return "jemalloc";
  if (name == "tc_malloc" || name == "TCMallocInternalMalloc") return "tcmalloc";
  if (name == "mi_malloc") return "mimalloc";
  return nullptr;
}

}  // namespace

ElfFacts read_elf_facts(const std::string& path) {
  ElfFacts facts;
  const File file(path);
  const auto headers = file.structs<Elf64_Ehdr>(0, 1);
  if (headers.empty()) return facts;
  const Elf64_Ehdr& header = headers[0];
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_shentsize != sizeof(Elf64_Shdr))
    return facts;
  const auto sections = file.structs<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    const bool symbols = section.sh_type == SHT_DYNSYM, dynamic = section.sh_type == SHT_DYNAMIC;
    const bool local_symbols = section.sh_type == SHT_SYMTAB;
    if ((!symbols && !dynamic && !local_symbols) || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& text = sections[section.sh_link];
    const std::string strings = file.bytes(text.sh_offset, text.sh_size);
    if (dynamic)
      for (const Elf64_Dyn& entry : file.structs<Elf64_Dyn>(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn))) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag != DT_NEEDED) continue;
        facts.needed.emplace_back(name_at(strings, entry.d_un.d_val));
        if (facts.needed.back().find("libasan") != std::string::npos ||
            facts.needed.back().find("libclang_rt.asan") != std::string::npos)
          facts.has_asan = true;
      }
    else
      for (const Elf64_Sym& symbol : file.structs<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
        if (symbols) facts.readable = true;
        if (symbol.st_shndx == SHN_UNDEF) continue;
        const std::string_view name = name_at(strings, symbol.st_name);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
          if (const char* allocator = allocator_with(name)) facts.own_allocator = allocator;
        if (local_symbols) continue;
        if (name == "malloc") facts.defines_malloc = true;
        if (name == "__asan_init") facts.has_asan = true;
      }
  }
  return facts;
}

}  // namespace heapspy::process
