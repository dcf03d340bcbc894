#include "analyzer/model/size_histogram.h"

namespace heapspy::model {

std::vector<SizeRow> SizeHistogram::rows() const {
  std::vector<SizeRow> rows;
  for (unsigned i = 0; i < buckets_.size(); i++) {
    const Bucket& b = buckets_[i];
    if (b.allocations == 0 && b.bytes == 0 && b.live_blocks == 0) continue;
    rows.push_back({bucket_from(i), bucket_to(i), b.allocations, b.bytes, b.live_blocks, b.live_bytes});
  }
  return rows;
}

void SizeHistogram::allocated(const trace::Block& block, trace::Tick) {
  Bucket& b = buckets_[size_bucket(block.size)];
  b.allocations++;
  b.bytes += block.size;
  b.live_blocks++;
  b.live_bytes += block.size;
}

void SizeHistogram::released(const trace::Block& block, trace::ThreadId, trace::Release, trace::Tick) {
  Bucket& b = buckets_[size_bucket(block.size)];
  b.live_blocks--;
  b.live_bytes -= block.size;
}

void SizeHistogram::vanished(const trace::Block& block, trace::Tick) {
  released(block, trace::ThreadId::none, trace::Release::free, 0);
}

void SizeHistogram::resized(const trace::Block& before, const trace::Block& after, trace::ThreadId, trace::Tick) {
  if (before.known) {
    Bucket& from = buckets_[size_bucket(before.size)];
    from.live_blocks--;
    from.live_bytes -= before.size;
  }
  Bucket& to = buckets_[size_bucket(after.size)];
  to.bytes += after.size;
  to.live_blocks++;
  to.live_bytes += after.size;
}

}  // namespace heapspy::model
