#include "analyzer/heap/main_mappings.h"

#include <algorithm>
#include <memory>

namespace heapspy::heap {
namespace {

using process::Mapping;
using process::PageState;
using process::Target;

constexpr std::uint64_t kFenceWord = 0x11;            // 16 bytes, the chunk before in use
constexpr std::uint64_t kMostSearched = 64ull << 30;  // of one mapping: shadow memory and the like are far larger
constexpr int kStepsRead = 8;  // from the target itself, before memory is copied to follow the whole chain

bool chunk_like(std::uint64_t word) {
  return (word & kSizeMask) >= kMinChunkBytes && (word & kSizeMask) % kChunkAlignment == 0 && !(word & (kMapped | kOtherArena));
}

class Search {
 public:
  Search(const Target& target, const HeapCopy& copy)
      : target_(target), top_(copy.arenas[0].top()), page_(target.page_bytes()) {}

  void look_into(const AddressRange& gap, std::vector<AddressRange>& found) {
    copied_.reset();
    std::uint64_t after = gap.start;
    for (const std::uint64_t start : candidates(gap)) {
      if (start < after || !begins_chain(start, gap.end)) continue;
      if (!copied_) copied_ = std::make_unique<CopiedRange>(target_, start, gap.end);
      if (const std::uint64_t end = chain_end(start)) {
        found.push_back({start, end});
        after = end;
      }
    }
  }

 private:
  // Pages whose first words may be the first chunk of a piece: nothing of malloc's is before it.
  std::vector<std::uint64_t> candidates(const AddressRange& gap) const {
    const std::size_t count = std::min(gap.end - gap.start, kMostSearched) / page_;
    const auto states = target_.pages(gap.start, count);
    std::vector<process::Piece> pieces;
    for (std::size_t i = 0; i < count; i++)
      if (!states || (*states)[i] == PageState::resident || (*states)[i] == PageState::swapped)
        pieces.push_back({gap.start + i * page_, 16});
    std::vector<std::uint64_t> words(2 * pieces.size()), starts;
    const std::vector<bool> read = target_.read_pieces(pieces, reinterpret_cast<std::byte*>(words.data()));
    for (std::size_t k = 0; k < pieces.size(); k++)
      if (read[k] && words[2 * k] == 0 && chunk_like(words[2 * k + 1]) && words[2 * k + 1] & kPreviousInUse)
        starts.push_back(pieces[k].address);
    return starts;
  }

  bool begins_chain(std::uint64_t at, std::uint64_t end) const {
    for (int i = 0; i < kStepsRead && at != top_; i++) {
      const auto word = target_.read_value<std::uint64_t>(at + 8);
      if (!word || !chunk_like(*word)) return i > 0 && word && (*word & kSizeMask) == kChunkHeaderBytes;
      if ((*word & kSizeMask) > end - at) return false;
      at += *word & kSizeMask;
      if (at + kChunkHeaderBytes > end) return false;
      // The next header may stand on a page that was never touched; then it is none, and reading would touch it.
      if (const auto state = target_.pages(at & ~(page_ - 1), 1); state && (*state)[0] == PageState::absent) return false;
    }
    return true;
  }

  // 0: the chain does not end as it should.
  std::uint64_t chain_end(std::uint64_t at) const {
    for (std::size_t steps = 0; copied_->contains(at, kChunkHeaderBytes); steps++) {
      const std::uint64_t word = copied_->word(at + 8), bytes = word & kSizeMask;
      if (at == top_) return chunk_like(word) && bytes <= copied_->end() - at ? at + bytes : 0;
      if (bytes == kChunkHeaderBytes && steps > 0) {
        if (!copied_->contains(at + kChunkHeaderBytes, kChunkHeaderBytes)) return 0;
        return copied_->word(at + kChunkHeaderBytes + 8) == kFenceWord ? at + 2 * kChunkHeaderBytes : 0;
      }
      if (!chunk_like(word) || bytes > copied_->end() - at) return 0;
      at += bytes;
    }
    return 0;
  }

  const Target& target_;
  const std::uint64_t top_, page_;
  std::unique_ptr<CopiedRange> copied_;
};

}  // namespace

std::vector<AddressRange> unclaimed_memory(const Target& target, const HeapCopy& copy) {
  const std::uint64_t mask = target.page_bytes() - 1;
  std::vector<AddressRange> gaps;
  const auto add = [&](std::uint64_t start, std::uint64_t end) {
    end = target.held_end(start, end) & ~mask;
    if (start < end) gaps.push_back({start, end});
  };
  auto region = copy.regions.begin();
  for (const Mapping& m : target.mappings()) {
    if (!m.read || !m.write || !m.anonymous() || !(m.name.empty() || m.name.starts_with("[anon"))) continue;
    std::uint64_t at = m.start;
    while (region != copy.regions.end() && region->end <= at) ++region;
    for (auto r = region; r != copy.regions.end() && r->start < m.end; ++r) {
      if (r->start > at) add(at, r->start);
      at = std::max(at, (r->end + mask) & ~mask);
    }
    add(at, m.end);
  }
  return gaps;
}

std::vector<AddressRange> find_main_mappings(const Target& target, const HeapCopy& copy) {
  std::vector<AddressRange> found;
  Search search(target, copy);
  for (const AddressRange& gap : unclaimed_memory(target, copy)) search.look_into(gap, found);
  return found;
}

}  // namespace heapspy::heap
