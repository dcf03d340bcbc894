#include "loaded_objects.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "os.h"

namespace heapspy {

namespace {

// glibc's dlfcn.h, since 2.35; written out to compile with an older one.
struct FoundObject {
  unsigned long long flags;
  void* start;
  void* end;
  link_map* map;
  void* eh_frame_header;
#if defined(__i386__)
  void* base;
#endif
  unsigned long long reserved[7];
};
int (*find_object)(void*, FoundObject*);
const r_debug* loaders_list;

constexpr uint64_t kPage = 4096;

// The header of a library is the first thing that is mapped of it, at its bias; that of a program that was linked to a fixed
// address stands where the bias does not say.
const ElfW(Ehdr) * header_of(const link_map* map) {
  const uint64_t at = map->l_addr ? map->l_addr : reinterpret_cast<uint64_t>(map->l_ld) & ~(kPage - 1);
  constexpr int kMostPages = 1 << 16;  // of a program: its dynamic section comes after its code
  for (int i = 0; i < (map->l_addr ? 1 : kMostPages); i++) {
    const uint64_t page = at - static_cast<uint64_t>(i) * kPage;
    if (!os::is_readable(page)) continue;
    const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(page);
    if (__builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) == 0) return header;
  }
  return nullptr;
}

bool read_object(const link_map* map, LoadedObject* to) {
  const ElfW(Ehdr)* header = header_of(map);
  if (!header || header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > kPage) return false;
  *to = {~0ull, 0, map, nullptr};
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(reinterpret_cast<const char*>(header) + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    const uint64_t start = map->l_addr + segments[i].p_vaddr, end = start + segments[i].p_memsz;
    if (segments[i].p_type == PT_GNU_EH_FRAME) to->eh_frame_header = reinterpret_cast<const uint8_t*>(start);
    if (segments[i].p_type != PT_LOAD) continue;
    if (start < to->start) to->start = start & ~(kPage - 1);
    if (end > to->end) to->end = end;
  }
  return to->start < to->end;
}

}  // namespace

bool LoadedObjects::set_up() {
  find_object = reinterpret_cast<decltype(find_object)>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
  if (!find_object) loaders_list = static_cast<const r_debug*>(dlsym(RTLD_DEFAULT, "_r_debug"));
  return find_object || loaders_list;
}

bool LoadedObjects::find(uint64_t pc, LoadedObject* to) {
  if (!find_object) return find_in_list(pc, to);
  FoundObject object{};
  if (find_object(reinterpret_cast<void*>(pc), &object) != 0) return false;
  *to = {reinterpret_cast<uint64_t>(object.start), reinterpret_cast<uint64_t>(object.end), object.map,
         static_cast<const uint8_t*>(object.eh_frame_header)};
  return true;
}

const LoadedObject* LoadedObjects::known(const void* map) {
  const auto* seen = static_cast<const link_map*>(map);
  for (uint32_t i = 0; i < count_; i++) {
    LoadedObject& each = known_[i];
    if (each.map != map) continue;
    // The memory of a link_map is used again: it is the same object where its dynamic section is.
    const auto dynamic = reinterpret_cast<uint64_t>(seen->l_ld);
    if (dynamic >= each.start && dynamic < each.end) return &each;
    return read_object(seen, &each) ? &each : nullptr;
  }
  return count_ < kMost && read_object(seen, &known_[count_]) ? &known_[count_++] : nullptr;
}

// The list is walked to its end each time: an object that is in it is loaded, whatever was known before.
bool LoadedObjects::find_in_list(uint64_t pc, LoadedObject* to) {
  os::SignalsBlocked blocked;
  if (!loaders_list || !lock_.try_lock()) return false;
  bool found = false;
  if (!unloading_.load() && loaders_list->r_state == r_debug::RT_CONSISTENT)
    for (const link_map* map = loaders_list->r_map; map && !found; map = map->l_next) {
      const LoadedObject* object = known(map);
      if ((found = object && pc >= object->start && pc < object->end)) *to = *object;
    }
  lock_.unlock();
  return found;
}

// Whoever walks the list now is let finish; who comes later sees that it is not the time.
LoadedObjects::Unloading::Unloading(LoadedObjects& objects) : objects_(objects) {
  objects_.unloading_.fetch_add(1);
  os::SignalsBlocked blocked;
  Locked walkers_are_done(objects_.lock_);
}

}  // namespace heapspy
