// The call stack that the recorder of this very process wrote for an allocation, read from the trace that it has mapped: so a
// program can compare each with what another unwinder says, a million times. Allocates nothing.
#pragma once
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heapspy/format/decode.h"
#include "heapspy/format/followed_stacks.h"
#include "heapspy/format/layout.h"

namespace recorded {

using namespace heapspy::format;

struct Stack {
  bool found = false;  // the allocation is in the trace
  int depth = 0;
  Cut cut{};              // none: 0
  uint64_t frames[1100];  // innermost first
  uint16_t modules[1100];
};

class Trace {
 public:
  // The newest allocation of the calling thread that gave `block`. Allocations before it are not found any more, unless
  // `again`.
  void stack_of(const void* block, Stack* to, bool again = false) {
    const Reader before = reader();
    to->found = false;
    to->depth = 0;
    to->cut = {};
    uint32_t cell = 0;
    const bool there = find(reinterpret_cast<uint64_t>(block), &cell);
    if (again && before.slot == reader().slot && before.delta == reader().delta) reader() = before;
    if (!there) return;
    to->found = true;
    while (cell && to->depth < 1100) {
      const StackCell* each = cell_at(cell);
      if (!each) return void(to->found = false);
      if (each->kind == CellKind::cut)
        to->cut = static_cast<Cut>(each->code);
      else
        to->modules[to->depth] = static_cast<uint16_t>(each->code >> kCodeModuleShift),
        to->frames[to->depth++] = each->code & ((1ull << kCodeModuleShift) - 1);
      cell = each->parent;
    }
  }

  // "": of the program itself, or not found.
  const char* path_of_module(uint32_t number) {
    static char path[4096];
    path[0] = 0;
    look_around();
    for (const Cells* each = now().cells; each->count; each++)
      for (uint32_t i = 0; i < each->count; i++) {
        if (each->at[i].kind != CellKind::module) continue;
        const auto* module = reinterpret_cast<const ModuleRecord*>(each->at + i + 1);
        if (static_cast<uint32_t>(each->at[i].code) == number)
          memcpy(path, module + 1, module->path_bytes), path[module->path_bytes] = 0;
        i += static_cast<uint32_t>(each->at[i].code >> 32);
      }
    return path;
  }

 private:
  struct Cells {
    uint32_t first, count;
    const StackCell* at;
  };
  static constexpr int kMost = 512;

  // Where the calling thread writes, and how far we have read.
  struct Reader {
    const SlotHeader* slot;
    const uint64_t* ring;
    uint64_t ring_words, delta, at;
    uint32_t said;
    bool next_is_said;
    FollowedStacks followed;
  };
  static Reader& reader() {
    static thread_local Reader mine;
    return mine;
  }

  bool find(uint64_t block, uint32_t* cell) {
    Reader& r = reader();
    for (int attempt = 0; attempt < 3; attempt++) {
      const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
      if (!r.slot || r.slot->thread == 0 || r.slot->tid != tid || r.slot->stream_delta != r.delta) {
        if (!find_slot(tid, &r) && (look_around(), !find_slot(tid, &r))) return false;
      }
      if (r.at + r.ring_words / 4 < r.slot->appended) r.at = r.slot->appended, r.said = 0;  // else it is still there
      bool found = false;
      for (;;) {
        const uint64_t first = word(r, r.at);
        if (first == ~0ull) break;
        uint64_t words[40];
        const uint32_t count = record_words(first);
        for (uint32_t i = 0; i < count && i < 40; i++) words[i] = word(r, r.at + i);
        const Record record = decode(words, count < 40 ? count : 40);
        if (record.operation == Operation::escape && record.kind == Kind::stack) {
          r.followed.forget();
          r.said = static_cast<uint32_t>(record.payload);
          r.next_is_said = false;
        } else if (record.operation == Operation::escape && record.kind == Kind::next_stack) {
          r.followed.note(r.said, static_cast<uint32_t>(record.payload));
          r.said = static_cast<uint32_t>(record.payload);
          r.next_is_said = true;
        }
        const bool allocation = record.operation == Operation::malloc || record.operation == Operation::calloc ||
                                record.operation == Operation::operator_new || record.operation == Operation::realloc_end ||
                                record.operation == Operation::realloc_new || record.kind == Kind::allocation ||
                                record.kind == Kind::realloc_end;
        if (allocation && !r.next_is_said) r.said = r.followed.after(r.said);
        if (allocation) r.next_is_said = false;
        if (allocation && record.address == block) found = true, *cell = r.said;
        r.at += count ? count : 1;
        if (r.ring_words < 16384 && r.at >= r.ring_words) break;
      }
      if (found) return true;
      r.slot = nullptr;  // it has moved to another ring
    }
    return false;
  }

  // ~0: not written.
  static uint64_t word(const Reader& r, uint64_t position) {
    if (r.ring_words < 16384 && position >= r.ring_words) return ~0ull;
    const uint64_t value = reinterpret_cast<const volatile uint64_t*>(r.ring)[position % r.ring_words];
    return (value >> 63) == ((position / 16384 & 1) ^ 1) ? value & ~kLapBit : ~0ull;
  }

  bool find_slot(uint32_t tid, Reader* r) {
    const View& view = now();
    for (int i = 0; i < view.segments; i++) {
      const auto* staging = reinterpret_cast<const StagingHeader*>(view.segment[i] + sizeof(ChunkHeader));
      const auto* slots = reinterpret_cast<const SlotHeader*>(staging + 1);
      for (uint32_t s = 0; s < staging->slots; s++)
        if (slots[s].thread && slots[s].tid == tid) {
          const uint64_t delta = slots[s].stream_delta;
          *r = {slots + s,
                reinterpret_cast<const uint64_t*>(view.segment[i] + kPageBytes + s * staging->ring_bytes),
                staging->ring_bytes / 8,
                delta,
                slots[s].appended,
                0,
                false,
                {}};
          return true;
        }
    }
    return false;
  }

  const StackCell* cell_at(uint32_t number) {
    for (int attempt = 0; attempt < 2; attempt++) {
      for (const Cells* each = now().cells; each->count; each++)
        if (number >= each->first && number - each->first < each->count) return each->at + (number - each->first);
      look_around();
    }
    return nullptr;
  }

  // Reads /proc/self/maps. By one thread at a time.
  void look_around() {
    while (__atomic_exchange_n(&busy_, 1, __ATOMIC_ACQUIRE)) {
    }
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    static char text[1 << 20];
    size_t length = 0;
    for (ssize_t got; fd >= 0 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0;)
      length += static_cast<size_t>(got);
    if (fd >= 0) close(fd);
    text[length] = 0;
    // Others may be reading the view before this one.
    View& fresh = views_[(__atomic_load_n(&view_, __ATOMIC_RELAXED) + 1) % kViews];
    fresh = {};
    int cells = 0;
    for (char* line = text; *line;) {
      char* end = strchr(line, '\n');
      if (!end) break;
      *end = 0;
      if (end - line > 5 && strcmp(end - 5, ".hspy") == 0) {
        char* at = line;
        const uint64_t from = number(&at), to = number(&++at);
        while (*at == ' ') at++;
        while (*at != ' ') at++;
        const uint64_t offset = number(&++at);
        for (uint64_t chunk = from + (offset == 0 ? kPageBytes : 0); chunk + kPageBytes <= to;) {
          const auto* header = reinterpret_cast<const ChunkHeader*>(chunk);
          if (header->magic != kChunkMagic) break;
          // The end of the first mapping may show the beginning of a segment that is mapped as a whole elsewhere.
          if (chunk + sizeof *header + header->payload_bytes > to) break;
          if (header->kind == ChunkKind::staging && fresh.segments < kMost)
            fresh.segment[fresh.segments++] = reinterpret_cast<const char*>(chunk);
          if (header->kind == ChunkKind::stacks && cells < kMost - 1) {
            const auto* stacks = reinterpret_cast<const StacksHeader*>(header + 1);
            fresh.cells[cells++] = {stacks->first, stacks->cells, reinterpret_cast<const StackCell*>(stacks + 1)};
          }
          chunk += sizeof *header + header->payload_bytes;
        }
      }
      line = end + 1;
    }
    __atomic_store_n(&view_, view_ + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&busy_, 0, __ATOMIC_RELEASE);
  }

  static uint64_t number(char** text) {
    uint64_t value = 0;
    for (;; (*text)++) {
      const char c = **text;
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<uint64_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + static_cast<uint64_t>(c - 'a' + 10);
      else
        return value;
    }
  }

  int busy_ = 0;
  struct View {
    int segments;
    const char* segment[kMost];
    Cells cells[kMost];  // up to one without cells
  };
  static constexpr unsigned kViews = 16;
  const View& now() const { return views_[__atomic_load_n(&view_, __ATOMIC_ACQUIRE) % kViews]; }

  unsigned view_ = 0;
  View views_[kViews] = {};
};

}  // namespace recorded
