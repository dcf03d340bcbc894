// glibc's dynamic thresholds as the events tell them. A block of M_MMAP_THRESHOLD (128 KiB) and more is a mapping of its own;
// when such a mapping is freed, the threshold becomes its size and M_TRIM_THRESHOLD twice that (malloc/malloc.c, __libc_free),
// so that from then on such blocks come from the heaps and stay there. Setting any of the two, or M_TOP_PAD or M_MMAP_MAX,
// ends this, before the start or by mallopt.
#pragma once
#include <cstdint>
#include <optional>

#include "analyzer/model/heap_facts.h"
#include "analyzer/trace/event.h"
#include "analyzer/trace/mallopt_call.h"

namespace heapspy::model {

struct ThresholdFigures {
  std::uint64_t mmap_threshold_bytes = 0, trim_threshold_bytes = 0;  // as they are now
  // Whose free raised them last; nullopt: nothing has.
  struct Raised {
    std::uint64_t block_bytes = 0;  // asked for
    trace::Tick tick = 0;
  };
  std::optional<Raised> raised;
  std::uint64_t large_in_heaps = 0;  // blocks of 128 KiB and more that came from a heap
};

class DynamicThreshold {
 public:
  static constexpr std::uint64_t kLeast = 128u << 10;  // DEFAULT_MMAP_THRESHOLD_MIN, and the first trim threshold

  explicit DynamicThreshold(const HeapFacts& facts) : dynamic_(facts.glibc && facts.dynamic_threshold) {
    figures_.mmap_threshold_bytes = facts.mmap_threshold;
    figures_.trim_threshold_bytes = kLeast;
  }

  // Whether a block is a mapping of its own, by where it lies: such a block starts 16 bytes into a page, where mappings are.
  // (A block of a secondary arena does so by chance, one in 256.)
  static bool own_mapping(std::uint64_t address, std::uint64_t size) {
    return size >= kLeast && address % kPageBytes == 16 && (address >> 44 & 7) == 7;
  }

  void allocated(const trace::Block& block) {
    if (block.size >= kLeast && !own_mapping(block.address, block.size)) figures_.large_in_heaps++;
  }
  void released(const trace::Block& block, trace::Tick tick) {
    if (block.size < kLeast || !dynamic_ || !own_mapping(block.address, block.size)) return;
    const std::uint64_t chunk = (glibc_chunk_bytes(block.size) + 8 + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (chunk <= figures_.mmap_threshold_bytes || chunk > kMost) return;
    figures_.mmap_threshold_bytes = chunk;
    figures_.trim_threshold_bytes = 2 * chunk;
    figures_.raised = {block.size, tick};
  }
  void set(const trace::MalloptCall& call) {
    if (!call.ends_dynamic_threshold()) return;
    dynamic_ = false;
    const auto bytes = static_cast<std::uint64_t>(call.value);
    if (call.parameter == trace::MalloptCall::kMmapThreshold) figures_.mmap_threshold_bytes = bytes;
    if (call.parameter == trace::MalloptCall::kTrimThreshold) figures_.trim_threshold_bytes = bytes;
  }
  const ThresholdFigures& figures() const { return figures_; }

 private:
  static constexpr std::uint64_t kMost = 32u << 20;  // DEFAULT_MMAP_THRESHOLD_MAX of 64-bit machines
  bool dynamic_;
  ThresholdFigures figures_;
};

}  // namespace heapspy::model
