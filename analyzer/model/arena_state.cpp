#include "analyzer/model/arena_state.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/model/arena_sums.h"
#include "analyzer/model/pin_charges.h"
#include "analyzer/model/residency.h"

namespace heapspy::model {
namespace {

using trace::Block;
using trace::ThreadId;

// What glibc maps for a block of its own mapping: the chunk and one more size word, in whole pages (sysmalloc_mmap).
std::uint64_t mmapped_bytes(std::uint64_t size) {
  return (glibc_chunk_bytes(size) + 8 + kPageBytes - 1) / kPageBytes * kPageBytes;
}

class Computation {
 public:
  explicit Computation(const ArenaInputs& inputs)
      : in_(inputs),
        map_(inputs.facts, inputs.snapshot),
        residency_(inputs.snapshot ? Residency(*inputs.snapshot) : Residency()),
        large_(inputs.pages, residency_),
        arenas_(map_.arenas().size()),
        heaps_(map_.heaps().size()) {
    if (inputs.snapshot) shares_.resize(inputs.snapshot->mappings.size());
  }

  // Whose blocks, how many, and the highest of each heap.
  void look_at_blocks() {
    in_.for_each_live([&](const Block& block) {
      const std::size_t h = map_.heap_of(block.address);
      std::uint32_t a;
      if (h != ArenaMap::npos) {
        a = map_.heaps()[h].arena;
        Heap& heap = heaps_[h];
        if (!heap.has_plug || block.address > heap.plug.address) {
          heap.plug = block;
          heap.has_plug = true;
        }
      } else {
        a = outside(block);
      }
      Arena& arena = arenas_[a];
      arena.live_blocks++;
      arena.live_bytes += block.size;
      if (in_.facts.glibc)
        arena.in_use += a == map_.mmapped_index() ? mmapped_bytes(block.size) : glibc_chunk_bytes(block.size);
      belongs(block.thread, a);
      pins_.look_at(block);
    });
    if (in_.newest_address)
      in_.newest_address->for_each([&](ThreadId id, std::uint64_t address) {
        const std::size_t h = address ? map_.heap_of(address) : ArenaMap::npos;
        if (h != ArenaMap::npos) belongs(id, map_.heaps()[h].arena);
      });
  }

  void look_at_pages() {
    for (std::size_t h = 0; h < heaps_.size(); h++) look_at_heap(h);
    look_outside();
  }

  void charge_pins(std::size_t top_blocks, ArenaState& state) {
    if (splits() && in_.snapshot) pins_.charge(top_blocks, state);
    state.sites = pins_.site_holds();
  }

  ArenaState figures() {
    ArenaState state;
    state.unrecorded = in_.facts.unrecorded;
    ArenaFigures& all = state.process;
    all.in_use_bytes = all.system_bytes = all.resident_bytes = 0;
    all.parts = ResidentParts{};
    for (std::size_t a = 0; a < arenas_.size(); a++) {
      const ArenaSpan& span = map_.arenas()[a];
      const Arena& arena = arenas_[a];
      if (span.heaps == 0 && arena.live_blocks == 0) continue;
      ArenaFigures f;
      f.id = static_cast<std::uint32_t>(state.arenas.size()) + 1;
      f.kind = span.kind;
      f.address = span.address;
      f.heaps = span.heaps;
      f.threads = arena.threads;
      std::sort(f.threads.begin(), f.threads.end());
      f.live_bytes = arena.live_bytes;
      f.live_blocks = arena.live_blocks;
      if (in_.facts.glibc && !in_.facts.unrecorded) f.in_use_bytes = arena.in_use + span.header_bytes;
      if (span.kind == ArenaKind::main || span.kind == ArenaKind::secondary)
        f.system_bytes = span.system_bytes;
      else if (span.kind == ArenaKind::mmapped)
        f.system_bytes = arena.in_use;
      const bool splits_here = splits() || (span.kind == ArenaKind::mmapped && in_.facts.glibc);
      if (in_.snapshot && arena.residency_known && in_.facts.glibc) {
        f.resident_bytes = arena.resident;
        if (splits_here) f.parts = arena.parts;
      }
      settle(f);
      if (!in_.facts.unrecorded) f.plug = plug_of(static_cast<std::uint32_t>(a));
      add(f, all);
      state.arenas.push_back(std::move(f));
    }
    if (!in_.facts.glibc) all.system_bytes.reset();
    settle(all);
    state.shares = shares();
    return state;
  }

  std::vector<MappingShare> shares() {
    std::vector<MappingShare> result;
    for (std::uint32_t m = 0; m < shares_.size(); m++)
      if (shares_[m].parts.sum() || shares_[m].unsplit_bytes) {
        shares_[m].mapping = m;
        result.push_back(shares_[m]);
      }
    return result;
  }

  BriefState brief() const {
    if (!in_.snapshot || !in_.facts.glibc) return {};
    BriefState brief;
    std::uint64_t system = 0, pinned = 0;
    bool known = splits();
    for (std::size_t a = 0; a < arenas_.size(); a++) {
      system += map_.arenas()[a].system_bytes;
      pinned += arenas_[a].parts.pinned;
      known = known && arenas_[a].residency_known;
    }
    for (const auto& [address, size] : in_.pages.large())
      if (map_.heap_of(address) == ArenaMap::npos) system += mmapped_bytes(size);
    brief.system_bytes = system;
    if (known) brief.pinned_bytes = pinned;
    return brief;
  }

  void look_at_heaps_only() {
    for (std::size_t h = 0; h < heaps_.size(); h++) look_at_heap(h);
  }

  // Small blocks outside the heaps tell pages of their kind from mappings of large ones.
  std::vector<MappingShare> shares_without_blocks() {
    if (!in_.snapshot) return {};
    small_outside_ = false;
    look_outside();
    if (small_outside_) {
      in_.for_each_live([&](const Block& block) {
        if (map_.heap_of(block.address) == ArenaMap::npos) outside(block);
      });
      shares_.assign(shares_.size(), MappingShare());
      for (Arena& arena : arenas_) arena = Arena();
      look_at_pages();
    }
    return shares();
  }

 private:
  struct Arena {
    std::uint64_t live_bytes = 0, live_blocks = 0, in_use = 0;
    bool residency_known = true;
    std::uint64_t resident = 0;
    ResidentParts parts;
    std::vector<ThreadId> threads;
  };
  struct Heap {
    bool has_plug = false;
    Block plug;
    std::uint64_t free_below_plug = 0;
  };

  // Whether resident bytes can be told apart: inherited blocks of a forked process are in no trace of its own.
  bool splits() const { return in_.facts.glibc && !in_.facts.forked && !in_.facts.unrecorded; }

  std::uint32_t outside(const Block& block) {
    if (!in_.facts.glibc || !in_.snapshot) return map_.other_index();
    const bool alone = (block.address & (kPageBytes - 1)) == 16 && in_.pages.page(block.address).blocks <= 1;
    if (block.size >= in_.facts.mmap_threshold || alone) return map_.mmapped_index();
    const Span span = occupied(in_.facts, block.address, block.size);
    for (std::uint64_t page = page_of(span.begin); page < span.end; page += kPageBytes) other_pages_.insert(page);
    return map_.other_index();
  }

  void belongs(ThreadId thread, std::uint32_t arena) {
    std::uint32_t& last = last_arena_[thread];  // index + 1
    if (last == arena + 1) return;
    last = arena + 1;
    if (members_.insert(std::uint64_t{arena} << 32 | index(thread)).second) arenas_[arena].threads.push_back(thread);
  }

  // Calls visit(mapping, begin, end) for the parts of [begin, end) that are mapped.
  template <class Visit>
  void for_each_mapping(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    const auto& all = in_.snapshot->mappings;
    auto at = std::upper_bound(all.begin(), all.end(), begin,
                               [](std::uint64_t address, const trace::Mapping& m) { return address < m.end; });
    for (; at != all.end() && at->start < end; ++at)
      visit(static_cast<std::size_t>(at - all.begin()), std::max(begin, at->start), std::min(end, at->end));
  }

  // First address from which a secondary arena's newest heap is top, which malloc_trim leaves alone.
  std::uint64_t top_of(const HeapSpan& span, const Heap& heap) const {
    if (!span.newest || map_.arenas()[span.arena].kind == ArenaKind::main) return ~0ull;
    if (span.top) return span.top;
    std::uint64_t top = span.begin + span.header_bytes;
    for (std::uint64_t page = span.end; page > top; page -= kPageBytes)
      if (in_.pages.page(page - kPageBytes).held()) {
        top = page;
        break;
      }
    if (heap.has_plug) top = std::max(top, occupied(in_.facts, heap.plug.address, heap.plug.size).end);
    return top;
  }

  void look_at_heap(std::size_t h) {
    const HeapSpan& span = map_.heaps()[h];
    Heap& heap = heaps_[h];
    Arena& arena = arenas_[span.arena];
    const std::uint64_t top = top_of(span, heap);
    const std::uint64_t plug_page = heap.has_plug ? page_of(heap.plug.address - 8) : 0;
    // The last bytes of a heap that has a successor are a fencepost: its page stays.
    const std::uint64_t fence = span.newest ? ~0ull : span.end - kPageBytes;
    const bool split = splits();
    for_each_mapping(span.begin, span.end, [&](std::size_t m, std::uint64_t begin, std::uint64_t end) {
      const bool known = residency_.for_each_resident(begin, end, [&](std::uint64_t page) {
        const PageCounts counts = in_.pages.page(page);
        const std::uint64_t header = span.header_on(page);
        const std::uint64_t used = std::min<std::uint64_t>(kPageBytes, counts.used + header);
        const std::uint64_t free = kPageBytes - used;
        arena.resident += kPageBytes;
        shares_[m].parts.live += counts.live;
        arena.parts.live += counts.live;
        if (!split) {
          shares_[m].unsplit_bytes += kPageBytes - counts.live;
          return;
        }
        const std::uint64_t overhead = used - counts.live;
        ResidentParts& share = shares_[m].parts;
        share.overhead += overhead;
        arena.parts.overhead += overhead;
        std::uint64_t ResidentParts::*part = &ResidentParts::trimmable;
        if (counts.blocks)
          part = &ResidentParts::pinned;
        else if (counts.held() || header || page + kPageBytes > top || page >= fence)
          part = &ResidentParts::cached;
        share.*part += free;
        arena.parts.*part += free;
        if (part == &ResidentParts::trimmable && in_.pages.after_large(page)) {
          share.trimmable_large += free;
          arena.parts.trimmable_large += free;
        }
        if (part == &ResidentParts::cached && (page + kPageBytes > top || counts.cached)) {
          const auto why = page + kPageBytes > top ? &ResidentParts::cached_tops : &ResidentParts::cached_thread_caches;
          share.*why += free;
          arena.parts.*why += free;
        }
        if (page < plug_page) heap.free_below_plug += free;
      });
      if (!known) arena.residency_known = false;
    });
  }

  // Blocks outside all heaps. Only pages with blocks are malloc's for sure; a page of a block's own mapping is in use
  // as a whole.
  void look_outside() {
    if (!in_.snapshot) return;
    const auto& mappings = in_.snapshot->mappings;
    std::size_t h = 0;
    for (std::size_t m = 0; m < mappings.size(); m++) {
      const trace::Mapping& mapping = mappings[m];
      if (mapping.rss_bytes == 0) continue;
      std::uint64_t at = mapping.start;
      while (h < map_.heaps().size() && map_.heaps()[h].end <= at) h++;
      for (std::size_t next = h; at < mapping.end; next++) {
        const bool heap_follows = next < map_.heaps().size() && map_.heaps()[next].begin < mapping.end;
        const std::uint64_t gap_end = heap_follows ? map_.heaps()[next].begin : mapping.end;
        if (gap_end > at) look_at_gap(m, at, gap_end);
        if (!heap_follows) break;
        at = std::max(at, map_.heaps()[next].end);
      }
    }
  }

  void look_at_gap(std::size_t m, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t next = std::min(end, (at / PageMap::kLeafBytes + 1) * PageMap::kLeafBytes);
      if (in_.pages.leaf(at) != nullptr || large_within(at, next)) {
        const bool known = residency_.for_each_resident(at, next, [&](std::uint64_t page) { look_at_outside_page(m, page); });
        if (!known) not_known_outside(at, next);
      }
      at = next;
    }
  }

  bool large_within(std::uint64_t begin, std::uint64_t end) const {
    const auto& large = in_.pages.large();
    auto after = large.lower_bound(end);
    if (after == large.begin()) return false;
    --after;
    return after->first + after->second > begin;
  }

  bool large_covers(std::uint64_t page) const { return large_within(page, page + kPageBytes); }

  void not_known_outside(std::uint64_t begin, std::uint64_t end) {
    bool any = large_within(begin, end);
    for (std::uint64_t page = page_of(begin); page < end && !any; page += kPageBytes) any = in_.pages.page(page).blocks != 0;
    if (!any) return;
    arenas_[map_.mmapped_index()].residency_known = false;
    arenas_[map_.other_index()].residency_known = false;
  }

  void look_at_outside_page(std::size_t m, std::uint64_t page) {
    const PageCounts counts = in_.pages.page(page);
    if (!counts.blocks) return;
    small_outside_ = small_outside_ || (in_.facts.glibc && !large_covers(page));
    const bool other = !in_.facts.glibc || other_pages_.contains(page);
    Arena& arena = arenas_[other ? map_.other_index() : map_.mmapped_index()];
    arena.resident += kPageBytes;
    ResidentParts parts;
    parts.live = counts.live;
    if (!other) {
      parts.overhead = kPageBytes - counts.live;
      parts.mapped_live = parts.live;
      parts.mapped_overhead = parts.overhead;
    } else if (splits()) {
      parts.overhead = counts.used - counts.live;
      parts.pinned = kPageBytes - counts.used;
    }
    arena.parts.add(parts);
    shares_[m].parts.add(parts);
  }

  std::optional<Plug> plug_of(std::uint32_t arena) const {
    const auto& spans = map_.heaps();
    std::size_t h = 0;
    while (h < spans.size() && !(spans[h].arena == arena && spans[h].newest)) h++;
    for (std::size_t steps = 0; h < spans.size() && steps <= spans.size(); steps++) {
      if (heaps_[h].has_plug) return Plug{heaps_[h].plug, heaps_[h].free_below_plug};
      const std::uint64_t previous = spans[h].previous;
      h = previous ? map_.heap_of(previous) : spans.size();
    }
    return std::nullopt;
  }

  const ArenaInputs& in_;
  ArenaMap map_;
  Residency residency_;
  LargeBlocksOnPages large_;
  std::vector<Arena> arenas_;
  std::vector<Heap> heaps_;
  std::vector<MappingShare> shares_;               // by mapping
  std::unordered_set<std::uint64_t> other_pages_;  // addresses of pages with blocks of kind `other`
  bool small_outside_ = false;
  ThreadTable<std::uint32_t> last_arena_;
  std::unordered_set<std::uint64_t> members_;  // arena << 32 | thread
  PinCharges pins_{in_, map_, residency_, other_pages_};
};

}  // namespace

ArenaState arena_state(const ArenaInputs& inputs, std::size_t top_blocks) {
  Computation computation(inputs);
  computation.look_at_blocks();
  computation.look_at_pages();
  ArenaState state = computation.figures();
  computation.charge_pins(top_blocks, state);
  return state;
}

BriefState brief_state(const ArenaInputs& inputs, bool shares) {
  Computation computation(inputs);
  computation.look_at_heaps_only();
  BriefState brief = computation.brief();
  if (shares) brief.shares = computation.shares_without_blocks();
  return brief;
}

}  // namespace heapspy::model
