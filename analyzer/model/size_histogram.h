// How large the blocks are: buckets by powers of two.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "analyzer/trace/event.h"

namespace heapspy::model {

// Requests of [from, to) bytes. The first bucket is [0, 1); the others are [2^k, 2^(k+1)).
struct SizeRow {
  std::uint64_t from = 0, to = 0;
  std::uint64_t allocations = 0;                  // new blocks; sums to `allocations`
  std::uint64_t bytes = 0;                        // asked for by allocations and by reallocations; sums to `bytes_allocated`
  std::uint64_t live_blocks = 0, live_bytes = 0;  // at the end; 0 in rows of threads
};

inline unsigned size_bucket(std::uint64_t size) { return static_cast<unsigned>(std::bit_width(size)); }  // 0 .. 64
inline std::uint64_t bucket_from(unsigned bucket) { return bucket == 0 ? 0 : 1ull << (bucket - 1); }
inline std::uint64_t bucket_to(unsigned bucket) { return bucket >= 64 ? ~0ull : 1ull << bucket; }

class SizeHistogram final : public trace::Observer {
 public:
  std::vector<SizeRow> rows() const;  // by size; those where nothing ever was are left out

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;

 private:
  struct Bucket {
    std::uint64_t allocations = 0, bytes = 0, live_blocks = 0, live_bytes = 0;
  };
  std::array<Bucket, 65> buckets_;
};

}  // namespace heapspy::model
