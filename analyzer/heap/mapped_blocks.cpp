#include "analyzer/heap/mapped_blocks.h"

#include <algorithm>

#include "analyzer/heap/main_mappings.h"

namespace heapspy::heap {
namespace {

using process::PageState;
using process::Target;

constexpr std::uint64_t kWindowBytes = 4ull << 30;
constexpr std::size_t kMostCandidates = 256, kMostSteps = 4096;
constexpr std::size_t kMostPagesSearched = 256u << 10;  // one by one, while the target stands still

using Gap = AddressRange;  // memory that may hold mapped blocks

class Search {
 public:
  Search(const Target& target, const HeapCopy& copy)
      : target_(target), copy_(copy), page_(target.page_bytes()), header_outside_(copy.ring.bins == 24) {}

  std::vector<MappedBlock> run() {
    if (copy_.parameters && copy_.parameters->mapped_count == 0) return {};
    for (const Gap& gap : unclaimed_memory(target_, copy_)) follow(gap);
    if (copy_.parameters && !complete()) search_pages();
    std::sort(found_.begin(), found_.end(), [](const MappedBlock& a, const MappedBlock& b) { return a.start < b.start; });
    return std::move(found_);
  }

 private:
  bool there(std::uint64_t address) const {
    const auto state = target_.pages(address & ~(page_ - 1), 1);
    return !state || (*state)[0] == PageState::resident || (*state)[0] == PageState::swapped;
  }

  std::optional<std::uint64_t> resident_bytes(std::uint64_t start, std::uint64_t end) const {
    std::uint64_t pages = 0;
    for (std::uint64_t at = start; at < end; at += kWindowBytes) {
      const auto states = target_.pages(at, std::min(kWindowBytes, end - at) / page_);
      if (!states) return std::nullopt;
      pages += static_cast<std::uint64_t>(std::count(states->begin(), states->end(), PageState::resident));
    }
    return pages * page_;
  }

  // The block whose header (two words) stands at `chunk`, if it can be one within the gap.
  std::optional<MappedBlock> candidate(const Gap& gap, std::uint64_t chunk, const std::uint64_t (&header)[2]) const {
    if ((header[1] & 7) != kMapped) return std::nullopt;
    const std::uint64_t before = header_outside_ ? header[0] & ~std::uint64_t{1} : header[0];
    const std::uint64_t bytes = (header[1] & kSizeMask) + (header_outside_ ? kChunkHeaderBytes : 0);
    if (before > chunk - gap.start || bytes < kMinChunkBytes || bytes > gap.end - chunk) return std::nullopt;
    const std::uint64_t start = chunk - before;
    if (start % page_ != 0 || (before + bytes) % page_ != 0) return std::nullopt;
    return MappedBlock{chunk, start, start + before + bytes, std::nullopt};
  }
  void take(MappedBlock block) {
    block.resident_bytes = resident_bytes(block.start, block.end);
    bytes_ += block.end - block.start;
    found_.push_back(block);
  }
  bool accept(const Gap& gap, std::uint64_t chunk, const std::uint64_t (&header)[2], std::uint64_t& end) {
    const auto block = candidate(gap, chunk, header);
    if (!block) return false;
    end = block->end;
    take(*block);
    return true;
  }

  // Block behind block from the gap's start on. Alignment puts the header behind the mapping's start.
  void follow(const Gap& gap) {
    std::uint64_t at = gap.start;
    while (at < gap.end && there(at)) {
      std::vector<std::uint64_t> words(page_ / 8);
      if (target_.read(at, std::as_writable_bytes(std::span(words))) != page_) break;
      std::uint64_t end = 0;
      const auto header_at = [&](std::uint64_t offset) {
        const std::uint64_t header[2] = {words[offset / 8], words[offset / 8 + 1]};
        return header[0] == offset + (header_outside_ ? header[0] & 1 : 0) && accept(gap, at + offset, header, end);
      };
      bool found = header_at(0) || header_at(48);
      for (std::uint64_t alignment = 64; !found && alignment <= page_; alignment *= 2) found = header_at(alignment - 16);
      if (!found) break;
      at = end;
    }
    if (at < gap.end) left_.push_back({at, gap.end});
  }

  bool complete() const { return found_.size() >= copy_.parameters->mapped_count && bytes_ >= copy_.parameters->mapped_bytes; }

  // What stands behind memory of the program's own in one mapping: every page may begin a block, or (alignment beyond a
  // page) hold the header at its end.
  void search_pages() {
    std::size_t searched = 0;
    for (const Gap& gap : left_) {
      const std::size_t count = (gap.end - gap.start) / page_;
      if (searched > kMostPagesSearched) return;
      const auto states = target_.pages(gap.start, std::min(count, kMostPagesSearched));
      std::vector<process::Piece> pieces;
      for (std::size_t i = 0; i < std::min(count, kMostPagesSearched); i++) {
        if (states && (*states)[i] != PageState::resident && (*states)[i] != PageState::swapped) continue;
        pieces.push_back({gap.start + i * page_, 16});
        pieces.push_back({gap.start + (i + 1) * page_ - 16, 16});
      }
      searched += pieces.size() / 2;
      std::vector<std::uint64_t> words(pieces.size() * 2);
      const std::vector<bool> read = target_.read_pieces(pieces, reinterpret_cast<std::byte*>(words.data()));
      for (std::size_t k = 0; k < pieces.size(); k++) {
        const std::uint64_t header[2] = {words[2 * k], words[2 * k + 1]};
        const auto block = read[k] ? candidate(gap, pieces[k].address, header) : std::nullopt;
        if (!block || candidates_.size() == kMostCandidates) continue;
        candidates_.push_back(*block);
        if (choose()) return;
      }
    }
    // None come to what malloc counts: the first ones, and the checks will tell.
    for (const MappedBlock& block : candidates_)
      if (!complete() && apart(block, found_)) take(block);
  }

  static bool apart(const MappedBlock& block, const std::vector<MappedBlock>& others) {
    return std::ranges::none_of(others,
                                [&](const MappedBlock& each) { return block.start < each.end && each.start < block.end; });
  }

  // The program's own memory may hold what looks like a header (0 and an even number will do): those are blocks that together
  // come to what malloc counts beyond the blocks found so far.
  bool choose() {
    std::vector<MappedBlock> chosen;
    std::size_t steps = 0;
    const std::uint64_t count = copy_.parameters->mapped_count, bytes = copy_.parameters->mapped_bytes;
    if (count <= found_.size() || bytes <= bytes_ || !choose(0, count - found_.size(), bytes - bytes_, chosen, steps))
      return false;
    for (const MappedBlock& block : chosen) take(block);
    return true;
  }
  bool choose(std::size_t from, std::uint64_t count, std::uint64_t bytes, std::vector<MappedBlock>& chosen,
              std::size_t& steps) {
    if (count == 0) return bytes == 0;
    for (std::size_t i = from; i < candidates_.size() && steps < kMostSteps; i++, steps++) {
      const MappedBlock& block = candidates_[i];
      if (block.end - block.start > bytes || !apart(block, chosen)) continue;
      chosen.push_back(block);
      if (choose(i + 1, count - 1, bytes - (block.end - block.start), chosen, steps)) return true;
      chosen.pop_back();
    }
    return false;
  }

  const Target& target_;
  const HeapCopy& copy_;
  const std::uint64_t page_;
  const bool header_outside_;
  std::uint64_t bytes_ = 0;
  std::vector<MappedBlock> found_;
  std::vector<Gap> left_;
  std::vector<MappedBlock> candidates_;  // within memory of the program's own
};

}  // namespace

std::vector<MappedBlock> find_mapped_blocks(const Target& target, const HeapCopy& copy) { return Search(target, copy).run(); }

}  // namespace heapspy::heap
