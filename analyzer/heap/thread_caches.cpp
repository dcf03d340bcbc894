#include "analyzer/heap/thread_caches.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "analyzer/heap/free_lists.h"

namespace heapspy::heap {
namespace {

constexpr std::uint64_t kSmallCacheBins = 64;  // those above (2.42) hold a range of sizes, up to twice the smallest
constexpr std::uint64_t kRoundingRoom = 32;    // malloc may hand out so much more than the table needs

class CacheFinder {
 public:
  CacheFinder(const HeapCopy& copy, HeapWalk& walk, ChunkBits& bits)
      : copy_(copy), walk_(walk), bits_(bits), layout_(walk.layout) {}

  void run() {
    find_thread_arenas();
    if (layout_.cache_bins == 0) return;
    const std::map<std::uint64_t, pid_t> by_threads = tables_of_threads();
    for (const Chunk& chunk : walk_.chunks) {
      if (!may_hold_table(chunk)) continue;
      const auto owner = by_threads.find(chunk.block());
      std::vector<std::uint64_t> blocks;
      const bool holds = read_table(chunk.block(), blocks);
      // An empty table looks like any zeros: only a thread's pointer to it says that it is one.
      if (!holds || (blocks.empty() && owner == by_threads.end())) continue;
      add(chunk.block(), owner == by_threads.end() ? 0 : owner->second, blocks);
    }
    count_keys();
  }

 private:
  bool may_hold_table(const Chunk& chunk) const {
    const std::uint64_t least = layout_.cache_chunk_bytes();
    return chunk.kind == ChunkKind::in_use && chunk.bytes >= least && chunk.bytes <= least + kRoundingRoom;
  }
  std::uint64_t counter(std::uint64_t table, unsigned bin) const {
    const std::uint64_t at = table + std::uint64_t{bin} * layout_.cache_count_bytes;
    const std::uint64_t word = bits_.word(at & ~7ull) >> (8 * (at & 7));
    return layout_.cache_count_bytes == 1 ? word & 0xff : word & 0xffff;
  }
  static bool size_fits(unsigned bin, std::uint64_t bytes) {
    if (bin < kSmallCacheBins) return bytes == kMinChunkBytes + 16ull * bin;
    const std::uint64_t least = 1024ull << (bin - kSmallCacheBins);
    return bytes > 1040 && bytes >= least && bytes <= 2 * least + 64;
  }

  // True: the counters and the lists of the table agree in every bin. Fills the blocks that it lists.
  bool read_table(std::uint64_t table, std::vector<std::uint64_t>& blocks) {
    const std::uint64_t entries = table + std::uint64_t{layout_.cache_bins} * layout_.cache_count_bytes;
    const std::uint64_t depth = copy_.parameters ? copy_.parameters->cache_depth : 0xffff;
    for (unsigned bin = 0; bin < layout_.cache_bins; bin++) {
      const std::uint64_t counted = counter(table, bin);
      std::uint64_t at = bits_.word(entries + 8ull * bin);
      if (!layout_.cache_counts_free_slots && (counted == 0) != (at == 0)) return false;
      if (counted > depth) return false;
      // An empty list of a table that counts free slots says nothing: bins that are switched off have none.
      if (at == 0) continue;
      const std::uint64_t wanted = layout_.cache_counts_free_slots ? depth - counted : counted;
      std::uint64_t listed = 0;
      for (; at != 0; at = revealed(layout_, at, bits_.word(at)), listed++) {
        const std::uint8_t* chunk = bits_.at(at - kChunkHeaderBytes);
        if (listed == wanted || !chunk || *chunk & ChunkBits::kFree || !size_fits(bin, bits_.word(at - 8) & kSizeMask))
          return false;
        blocks.push_back(at);
      }
      if (listed != wanted) return false;
    }
    return true;
  }

  void add(std::uint64_t table, pid_t tid, const std::vector<std::uint64_t>& blocks) {
    ThreadCache cache;
    cache.table = table;
    cache.tid = tid;
    *bits_.at(table - kChunkHeaderBytes) |= ChunkBits::kCacheTable;
    for (const std::uint64_t block : blocks) {
      std::uint8_t* chunk = bits_.at(block - kChunkHeaderBytes);
      if (*chunk & ChunkBits::kCached) walk_.cache_faults++;  // in two caches
      *chunk |= ChunkBits::kCached;
      cache.blocks++;
      cache.bytes += bits_.word(block - 8) & kSizeMask;
      if (layout_.cache_key == GlibcLayout::CacheKey::random && key_ == 0) key_ = bits_.word(block + 8);
      if (layout_.cache_key == GlibcLayout::CacheKey::own_address && bits_.word(block + 8) != table) walk_.cache_faults++;
    }
    walk_.cached_listed += cache.blocks;
    walk_.caches.push_back(cache);
  }

  // Every cached block holds the key in its second word, and loses it when it is handed out: a count of its own. What a thread
  // left in its cache when it ended was freed once more with the key in it: into a fast bin, and from there to the next who
  // asks.
  void count_keys() {
    std::unordered_set<std::uint64_t> keys;
    if (layout_.cache_key == GlibcLayout::CacheKey::random && key_ != 0) keys.insert(key_);
    if (layout_.cache_key == GlibcLayout::CacheKey::own_address)
      for (const ThreadCache& cache : walk_.caches) keys.insert(cache.table);
    walk_.cache_key_known = !keys.empty();
    if (keys.empty()) return;
    const std::uint64_t largest = copy_.parameters ? copy_.parameters->cache_largest + 2 * kChunkHeaderBytes + 16 : 0x420;
    for (std::size_t i = 0; i < walk_.chunks.size(); i++) {
      const Chunk& chunk = walk_.chunks[i];
      if (chunk.kind != ChunkKind::in_use || chunk.bytes > largest) continue;
      if (!keys.contains(bits_.word(chunk.block() + 8))) continue;
      std::uint8_t& bits = bits_.of(i);
      if (bits & ChunkBits::kFast) continue;
      if (!(bits & ChunkBits::kCached) && all_tables_read_) {
        walk_.keys_left_over++;
        continue;
      }
      walk_.cached_by_key++;
      // Of a table that was caught amid a change: cached all the same.
      bits |= ChunkBits::kCached;
    }
  }

  // What each thread holds at that offset from its thread pointer where most of them hold a value that `accepts`: libc's
  // variable stands at the same offset in all. Values that do not pass are left out.
  // `offset`: of that place.
  template <typename Accepts>
  std::vector<std::pair<pid_t, std::uint64_t>> thread_variable(Accepts accepts, std::int64_t* offset = nullptr) const {
    std::map<std::int64_t, std::vector<std::pair<pid_t, std::uint64_t>>> found;
    for (const ThreadWords& thread : copy_.threads)
      for (std::uint64_t at = (thread.memory.start() + 7) & ~7ull; thread.memory.contains(at); at += 8) {
        const std::uint64_t value = thread.memory.word(at);
        if (value > 4096 && accepts(value))
          found[static_cast<std::int64_t>(at - thread.thread_pointer)].emplace_back(thread.tid, value);
      }
    std::vector<std::pair<pid_t, std::uint64_t>> most;
    for (auto& [at, values] : found) {
      if (values.size() <= most.size()) continue;
      most = std::move(values);
      if (offset) *offset = at;
    }
    return most;
  }

  std::map<std::uint64_t, pid_t> tables_of_threads() {
    const auto is_table = [this](std::uint64_t value) {
      const std::uint8_t* chunk = value % kChunkAlignment == 0 ? bits_.at(value - kChunkHeaderBytes) : nullptr;
      if (!chunk || *chunk & ChunkBits::kFree) return false;
      const std::uint64_t bytes = bits_.word(value - 8) & kSizeMask;
      if (bytes < layout_.cache_chunk_bytes() || bytes > layout_.cache_chunk_bytes() + kRoundingRoom) return false;
      std::vector<std::uint64_t> blocks;
      return read_table(value, blocks);
    };
    std::int64_t offset = 0;
    std::map<std::uint64_t, pid_t> tables;
    for (const auto& [tid, table] : thread_variable(is_table, &offset)) tables.emplace(table, tid);
    // A thread that has none has a null pointer there.
    all_tables_read_ = !tables.empty() && std::ranges::all_of(copy_.threads, [&](const ThreadWords& thread) {
      const std::uint64_t at = thread.thread_pointer + static_cast<std::uint64_t>(offset);
      return thread.memory.contains(at) && (thread.memory.word(at) == 0 || tables.contains(thread.memory.word(at)));
    });
    return tables;
  }

  void find_thread_arenas() {
    std::unordered_set<std::uint64_t> arenas;
    for (const ArenaCopy& arena : copy_.arenas) arenas.insert(arena.address);
    for (const auto& [tid, arena] : thread_variable([&arenas](std::uint64_t value) { return arenas.contains(value); }))
      walk_.thread_arenas.push_back({tid, arena});
  }

  const HeapCopy& copy_;
  HeapWalk& walk_;
  ChunkBits& bits_;
  const GlibcLayout& layout_;
  std::uint64_t key_ = 0;
  bool all_tables_read_ = false;  // of the threads that have one
};

}  // namespace

void list_thread_caches(const HeapCopy& copy, HeapWalk& walk, ChunkBits& bits) { CacheFinder(copy, walk, bits).run(); }

}  // namespace heapspy::heap
