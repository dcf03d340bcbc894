#include "analyzer/process/exported_symbol.h"

#include <elf.h>

#include <cstring>
#include <vector>

namespace heapspy::process {
namespace {

constexpr std::uint64_t kMostDynamicEntries = 1000, kMostChain = 1u << 20;

template <typename Value>
std::optional<Value> value_at(const LiveProcess& process, std::uint64_t address) {
  Value value;
  if (process.read_memory(address, std::as_writable_bytes(std::span(&value, 1))) != sizeof value) return std::nullopt;
  return value;
}

// What PT_DYNAMIC says. ld.so adds the base to addresses where it may write them, and not in every program.
struct DynamicTables {
  std::uint64_t bias = 0;  // of the addresses that the file has
  std::uint64_t strings = 0, symbols = 0, hash = 0;
};

std::optional<DynamicTables> dynamic_tables(const LiveProcess& process, std::uint64_t base) {
  const auto header = value_at<Elf64_Ehdr>(process, base);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_phentsize != sizeof(Elf64_Phdr))
    return std::nullopt;
  std::uint64_t bias = base, dynamic = 0;
  for (std::uint64_t i = 0; i < header->e_phnum; i++) {
    const auto segment = value_at<Elf64_Phdr>(process, base + header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    if (segment->p_type == PT_LOAD && segment->p_offset == 0) bias = base - segment->p_vaddr;
    if (segment->p_type == PT_DYNAMIC) dynamic = segment->p_vaddr;
  }
  if (dynamic == 0) return std::nullopt;
  DynamicTables tables;
  tables.bias = bias;
  for (std::uint64_t i = 0; i < kMostDynamicEntries; i++) {
    const auto entry = value_at<Elf64_Dyn>(process, bias + dynamic + i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) break;
    const std::uint64_t address = entry->d_un.d_ptr < bias ? entry->d_un.d_ptr + bias : entry->d_un.d_ptr;
    if (entry->d_tag == DT_STRTAB) tables.strings = address;
    if (entry->d_tag == DT_SYMTAB) tables.symbols = address;
    if (entry->d_tag == DT_GNU_HASH) tables.hash = address;
  }
  if (!tables.strings || !tables.symbols || !tables.hash) return std::nullopt;
  return tables;
}

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

bool is_named(const LiveProcess& process, std::uint64_t address, std::string_view name) {
  std::string there(name.size() + 1, '?');
  return process.read_memory(address, std::as_writable_bytes(std::span(there))) == there.size() &&
         there == std::string(name) + '\0';
}

// DT_GNU_HASH: buckets, words of the Bloom filter, …; then the filter, the buckets, and a chain of hashes per bucket whose last
// has its lowest bit set.
std::optional<std::uint64_t> exported(const LiveProcess& process, std::uint64_t base, std::string_view name, int type) {
  const auto tables = dynamic_tables(process, base);
  if (!tables) return std::nullopt;
  struct HashHeader {
    std::uint32_t buckets, first_symbol, filter_words, filter_shift;
  };
  const auto header = value_at<HashHeader>(process, tables->hash);
  if (!header || header->buckets == 0) return std::nullopt;
  const std::uint64_t buckets = tables->hash + sizeof(HashHeader) + std::uint64_t{header->filter_words} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{header->buckets} * 4;
  const std::uint32_t hash = gnu_hash(name);
  const auto bucket = value_at<std::uint32_t>(process, buckets + std::uint64_t{hash % header->buckets} * 4);
  if (!bucket || *bucket < header->first_symbol) return std::nullopt;
  for (std::uint64_t i = *bucket; i < *bucket + kMostChain; i++) {
    const auto chained = value_at<std::uint32_t>(process, chains + (i - header->first_symbol) * 4);
    if (!chained) return std::nullopt;
    if ((*chained | 1) == (hash | 1)) {
      const auto symbol = value_at<Elf64_Sym>(process, tables->symbols + i * sizeof(Elf64_Sym));
      if (symbol && symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == type &&
          is_named(process, tables->strings + symbol->st_name, name))
        return tables->bias + symbol->st_value;
    }
    if (*chained & 1) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

const Mapping* first_mapping_of(std::span<const Mapping> mappings, const std::string& library, std::uint64_t address) {
  const Mapping* first = nullptr;
  for (const Mapping& each : mappings) {
    if (each.start > address) break;
    if (each.name == library && each.file_offset == 0) first = &each;
  }
  return first;
}

std::optional<std::uint64_t> exported_function(const LiveProcess& process, std::uint64_t base, std::string_view name) {
  return exported(process, base, name, STT_FUNC);
}

std::optional<std::uint64_t> exported_variable(const LiveProcess& process, std::uint64_t base, std::string_view name) {
  return exported(process, base, name, STT_OBJECT);
}

}  // namespace heapspy::process
