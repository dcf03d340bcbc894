#include "analyzer/model/sampled.h"

#include <algorithm>
#include <cmath>

namespace heapspy::model {

using trace::Block;
using trace::ThreadId;
using trace::Tick;

namespace {

std::uint64_t rounded(double value) { return value > 0 ? static_cast<std::uint64_t>(std::llround(value)) : 0; }
double error(double variance) { return std::sqrt(std::max(variance, 0.0)); }

}  // namespace

SampleEstimates::SampleEstimates(std::uint64_t mean_bytes, const trace::Clock& clock)
    : mean_bytes_(mean_bytes ? static_cast<double>(mean_bytes) : 1), lives_(clock) {}

double SampleEstimates::probability(std::uint64_t size) const {
  return -std::expm1(-static_cast<double>(std::max<std::uint64_t>(size, 1)) / mean_bytes_);
}

// One sampled block of `size` that counts `x` in the sum.
void SampleEstimates::add(Sum& sum, std::uint64_t size, double x, double sign) const {
  const double p = probability(size);
  sum.value += sign * x / p;
  sum.variance += sign * (1 - p) / (p * p) * x * x;
}

SampleEstimates::Bucket& SampleEstimates::size_of(Counts& thread, std::uint64_t size) const {
  const unsigned bucket = size_bucket(size);
  if (bucket >= thread.sizes.size()) thread.sizes.resize(bucket + 1);
  return thread.sizes[bucket];
}

void SampleEstimates::begin(const Block& block, Tick tick) {
  const auto size = static_cast<double>(block.size);
  Counts& thread = threads_[block.thread];
  for (Counts* counts : {&all_, &thread}) {
    add(counts->bytes_allocated, block.size, size);
    add(counts->live_bytes, block.size, size);
    add(counts->live_blocks, block.size, 1);
    if (counts->live_bytes.value <= counts->peak_live_bytes) continue;
    counts->peak_live_bytes = counts->live_bytes.value;
    counts->peak_variance = counts->live_bytes.variance;
    if (counts == &all_) peak_tick_ = tick;
  }
  const double w = weight(block.size);
  for (Bucket* bucket : {&buckets_[size_bucket(block.size)], &size_of(thread, block.size)}) {
    bucket->bytes += w * size;
    bucket->live_blocks += w;
    bucket->live_bytes += w * size;
  }
}

void SampleEstimates::end(const Block& block) {
  const auto size = static_cast<double>(block.size);
  for (Counts* counts : {&all_, &threads_[block.thread]}) {
    add(counts->live_bytes, block.size, size, -1);
    add(counts->live_blocks, block.size, 1, -1);
  }
  Bucket& bucket = buckets_[size_bucket(block.size)];
  bucket.live_blocks -= weight(block.size);
  bucket.live_bytes -= weight(block.size) * size;
}

void SampleEstimates::allocated(const Block& block, Tick tick) {
  Counts& thread = threads_[block.thread];
  for (Counts* counts : {&all_, &thread}) add(counts->allocations, block.size, 1);
  const double w = weight(block.size);
  buckets_[size_bucket(block.size)].allocations += w;
  size_of(thread, block.size).allocations += w;
  origins_[std::min<std::size_t>(static_cast<std::size_t>(block.origin), origins_.size() - 1)] += w;
  begin(block, tick);
}

void SampleEstimates::released(const Block& block, ThreadId by, trace::Release release, Tick tick) {
  end(block);
  for (Counts* counts : {&all_, &threads_[by]}) add(counts->frees, block.size, 1);
  const double w = weight(block.size);
  releases_[release == trace::Release::operator_delete] += w;
  if (by != block.thread) {
    add(threads_[block.thread].freed_by_others, block.size, 1);
    add(threads_[by].freed_for_others, block.size, 1);
  }
  Bucket& life = lifetimes_[lives_.bucket(tick > block.born ? tick - block.born : 0)];
  life.live_blocks += w;
  life.live_bytes += w * static_cast<double>(block.size);
}

void SampleEstimates::released_by_realloc(const Block& block, ThreadId, Tick) { end(block); }

void SampleEstimates::resized(const Block& before, const Block& after, ThreadId by, Tick tick) {
  if (before.known) end(before);
  for (Counts* counts : {&all_, &threads_[by]}) add(counts->reallocations, after.size, 1);
  begin(after, tick);
}

void SampleEstimates::vanished(const Block& block, Tick) { end(block); }

StandardErrors SampleEstimates::errors_of(const Counts& counts) {
  // Of nothing there is no error, whatever the sums' last digits are.
  const bool live = counts.live_blocks.value >= 0.5;
  return {error(counts.allocations.variance),
          error(counts.frees.variance),
          error(counts.reallocations.variance),
          error(counts.bytes_allocated.variance),
          live ? error(counts.live_bytes.variance) : 0,
          live ? error(counts.live_blocks.variance) : 0,
          error(counts.peak_variance)};
}

SampledFigures SampleEstimates::figures(const Totals& counted, std::vector<ThreadFigures> threads) const {
  SampledFigures figures;
  Totals& totals = figures.totals;
  totals.allocations = rounded(all_.allocations.value);
  totals.frees = rounded(all_.frees.value);
  totals.reallocations = rounded(all_.reallocations.value);
  totals.bytes_allocated = rounded(all_.bytes_allocated.value);
  totals.live_bytes = rounded(all_.live_bytes.value);
  totals.live_blocks = rounded(all_.live_blocks.value);
  totals.peak_live_bytes = rounded(all_.peak_live_bytes);
  totals.peak_tick = peak_tick_;
  totals.failed = counted.failed;
  totals.unknown_frees = counted.unknown_frees;
  totals.inherited_frees = counted.inherited_frees;
  totals.unrecorded_frees = counted.unrecorded_frees;
  const auto origin = [&](trace::Origin which) { return rounded(origins_[static_cast<std::size_t>(which)]); };
  totals.calls.malloc = origin(trace::Origin::malloc);
  totals.calls.calloc = origin(trace::Origin::calloc);
  totals.calls.realloc = rounded(origins_[static_cast<std::size_t>(trace::Origin::realloc)] + all_.reallocations.value);
  totals.calls.aligned = origin(trace::Origin::aligned);
  totals.calls.operator_new = origin(trace::Origin::operator_new);
  totals.calls.operator_new_aligned = origin(trace::Origin::operator_new_aligned);
  totals.calls.free = rounded(releases_[0]);
  totals.calls.operator_delete = rounded(releases_[1]);
  figures.errors = errors_of(all_);

  for (ThreadFigures& thread : threads) {
    static const Counts kNone;
    const Counts* found = threads_.find(thread.id);
    const Counts& counts = found ? *found : kNone;
    thread.allocations = rounded(counts.allocations.value);
    thread.frees = rounded(counts.frees.value);
    thread.reallocations = rounded(counts.reallocations.value);
    thread.bytes_allocated = rounded(counts.bytes_allocated.value);
    thread.live_bytes = rounded(counts.live_bytes.value);
    thread.live_blocks = rounded(counts.live_blocks.value);
    thread.peak_live_bytes = rounded(counts.peak_live_bytes);
    thread.freed_by_others = rounded(counts.freed_by_others.value);
    thread.freed_for_others = rounded(counts.freed_for_others.value);
    thread.sizes.clear();
    for (unsigned i = 0; i < counts.sizes.size(); i++)
      if (const Bucket& b = counts.sizes[i]; b.allocations > 0 || b.bytes > 0)
        thread.sizes.push_back({bucket_from(i), bucket_to(i), rounded(b.allocations), rounded(b.bytes), 0, 0});
    figures.thread_errors.push_back(errors_of(counts));
  }
  figures.threads = std::move(threads);
  for (unsigned i = 0; i < buckets_.size(); i++)
    if (const Bucket& b = buckets_[i]; b.allocations > 0 || b.bytes > 0)
      figures.sizes.push_back({bucket_from(i), bucket_to(i), rounded(b.allocations), rounded(b.bytes), rounded(b.live_blocks),
                               rounded(b.live_bytes)});
  for (unsigned i = 0; i < lifetimes_.size(); i++) {
    if (lifetimes_[i].live_blocks <= 0) continue;
    LifetimeRow row = lives_.empty_row(i);
    row.blocks = rounded(lifetimes_[i].live_blocks);
    row.bytes = rounded(lifetimes_[i].live_bytes);
    figures.lifetimes.push_back(row);
  }
  return figures;
}

}  // namespace heapspy::model
