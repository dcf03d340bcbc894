#include "exported_symbol.h"

#include <elf.h>
#include <link.h>

#include <cstdint>

#include "text.h"

namespace heapspy::unwind {

namespace {

uint32_t gnu_hash(const char* name) {
  uint32_t hash = 5381;
  for (; *name; name++) hash = hash * 33 + static_cast<uint8_t>(*name);
  return hash;
}

}  // namespace

const void* exported_symbol(const void* library, const char* name) {
  const auto* map = static_cast<const link_map*>(library);
  const uint32_t* table = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (const auto* each = map->l_ld; each->d_tag != DT_NULL; each++) {
    const auto* at = reinterpret_cast<const char*>(each->d_un.d_ptr);  // glibc has added the bias
    if (each->d_tag == DT_GNU_HASH) table = reinterpret_cast<const uint32_t*>(at);
    if (each->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (each->d_tag == DT_STRTAB) names = at;
  }
  if (!table || !symbols || !names) return nullptr;
  const uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
  const uint32_t* bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* chain = bucket + buckets;
  const uint32_t hash = gnu_hash(name);
  if (!buckets) return nullptr;
  for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
    const uint32_t other = chain[i - first];
    if ((other | 1) == (hash | 1) && symbols[i].st_shndx != SHN_UNDEF && same(names + symbols[i].st_name, name))
      return reinterpret_cast<const void*>(map->l_addr + symbols[i].st_value);
    if (other & 1) break;
  }
  return nullptr;
}

}  // namespace heapspy::unwind
