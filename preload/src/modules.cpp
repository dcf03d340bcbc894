#include "modules.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "recorder.h"

namespace heapspy {

using namespace format;

namespace {

constexpr uint32_t kMostNumbers = 0xffff;

// The build-id among the notes that are mapped: NT_GNU_BUILD_ID of the owner "GNU".
void read_build_id(ModuleRecord& record) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(record.start);
  if (__builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phoff > 4096) return;
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(record.start + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum && i < 64; i++) {
    if (segments[i].p_type != PT_NOTE) continue;
    uint64_t at = record.bias + segments[i].p_vaddr;
    const uint64_t end = at + segments[i].p_memsz;
    if (at < record.start || end > record.end || at > end) continue;
    while (end - at >= sizeof(ElfW(Nhdr))) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const uint64_t name = at + sizeof *note, text = name + align_up(note->n_namesz, 4);
      const uint64_t next = text + align_up(note->n_descsz, 4);
      if (next > end || next <= at) break;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
          __builtin_memcmp(reinterpret_cast<char*>(name), "GNU", 4) == 0) {
        record.build_id_bytes = note->n_descsz < sizeof record.build_id ? note->n_descsz : sizeof record.build_id;
        __builtin_memcpy(record.build_id, reinterpret_cast<char*>(text), record.build_id_bytes);
        return;
      }
      at = next;
    }
  }
}

}  // namespace

template <class Visit>
void Modules::for_each(Visit visit) {
  for (Block* block = newest_ ? newest_ : &first_; block; block = block->before)
    for (uint32_t i = 0; i < block->used; i++)
      if (!block->modules[i].gone) visit(block->modules[i]);
}

void Modules::retire(Module& module) {
  module.gone = true;
  if (module.number) recorder->rules.forget_module(module.number);
  epoch_.fetch_add(1, std::memory_order_release);
}

uint32_t Modules::add(const Module& seen) {
  Block* block = newest_ ? newest_ : &first_;
  Module* place = nullptr;
  for (Block* each = block; each && !place; each = each->before)
    for (uint32_t i = 0; i < each->used && !place; i++)
      if (each->modules[i].gone) place = &each->modules[i];
  if (!place) {
    if (block->used == kInBlock) {
      auto* more = static_cast<Block*>(os::map_anonymous(sizeof(Block)));
      if (!more) return 0;
      if (os::failed(os::advise(more, sizeof(Block), MADV_WIPEONFORK))) return os::unmap(more, sizeof(Block)), 0;
      more->before = block;
      newest_ = block = more;
      blocks_++;
    }
    place = &block->modules[block->used++];
  }
  *place = seen;
  if (numbers_ == kMostNumbers) return 0;
  const auto* map = static_cast<const link_map*>(seen.map);
  ModuleRecord record{};
  record.start = seen.start;
  record.end = seen.end;
  record.bias = map ? map->l_addr : seen.start;
  read_build_id(record);
  if (!recorder->stacks.add_module(numbers_ + 1, record, map && map->l_name ? map->l_name : "")) return 0;
  if (map && map->l_name && unwind::HotspotCode::is_library(map->l_name)) recorder->hotspot.note_library(map);
  return place->number = ++numbers_;
}

uint32_t Modules::number_of(const Module& seen) {
  os::SignalsBlocked blocked;
  Locked locked(lock_);
  const Module* same = nullptr;
  for_each([&](Module& each) {
    if (each.end <= seen.start || seen.end <= each.start) return;
    if (each.start == seen.start && each.end == seen.end && each.map == seen.map && each.header == seen.header)
      same = &each;
    else
      retire(each);
  });
  return same ? same->number : add(seen);
}

Modules::Found Modules::find(uint64_t pc) {
  LoadedObject object;
  if (!objects_.find(pc, &object)) return {{nullptr, 0, 0}, 0, false};
  const Module seen = {object.start, object.end, object.map, object.eh_frame_header, 0, false};
  return {{seen.header, seen.start, seen.end}, number_of(seen), true};
}

void Modules::look_for_unloaded() {
  os::SignalsBlocked blocked;
  Locked locked(lock_);
  for_each([&](Module& each) {
    LoadedObject object;
    const bool there =
        objects_.find(each.start, &object) && object.start == each.start && object.end == each.end && object.map == each.map;
    if (!there) retire(each);
  });
}

}  // namespace heapspy
