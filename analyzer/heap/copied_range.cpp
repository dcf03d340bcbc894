#include "analyzer/heap/copied_range.h"

#include <algorithm>
#include <bit>

namespace heapspy::heap {
namespace {

using process::PageState;
constexpr std::uint64_t kWindowBytes = 4u << 20;  // copying is fastest from about 1 MiB at a time on

}  // namespace

CopiedRange::CopiedRange(const process::Target& target, std::uint64_t start, std::uint64_t end,
                         const std::shared_ptr<CopyRoom>& room) {
  const std::uint64_t page = target.page_bytes();
  page_shift_ = static_cast<unsigned>(std::countr_zero(page));
  start_ = start & ~(page - 1);
  end_ = std::max(start_, (target.held_end(start_, end) + page - 1) & ~(page - 1));
  slots_.resize((end_ - start_) >> page_shift_);
  if (auto states = target.pages(start_, slots_.size())) states_ = std::move(*states);
  copy(target, room);
}

void CopiedRange::copy(const process::Target& target, const std::shared_ptr<CopyRoom>& room) {
  std::vector<process::Piece> pieces;
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i < slots_.size(); i++) {
    if (!states_.empty() && states_[i] != PageState::resident && states_[i] != PageState::swapped) continue;
    slots_[i] = ++slot;
    const std::uint64_t address = start_ + (static_cast<std::uint64_t>(i) << page_shift_);
    if (!pieces.empty() && pieces.back().address + pieces.back().bytes == address && pieces.back().bytes < kWindowBytes)
      pieces.back().bytes += page_bytes();
    else
      pieces.push_back({address, page_bytes()});
  }
  if (slot == 0) return;
  copied_ = static_cast<std::uint64_t>(slot) << page_shift_;
  bytes_ = CopyRoom::take(room, copied_);
  const std::vector<bool> whole = target.read_pieces(pieces, bytes_.get());
  std::byte* at = bytes_.get();
  for (std::size_t k = 0; k < pieces.size(); at += pieces[k].bytes, k++) {
    if (whole[k]) continue;
    // Page by page: what can be read of it is worth having.
    for (std::uint64_t done = 0; done < pieces[k].bytes; done += page_bytes())
      if (const std::span<std::byte> page(at + done, page_bytes());
          target.read(pieces[k].address + done, page) != page.size()) {
        slots_[(pieces[k].address + done - start_) >> page_shift_] = 0;
        if (!states_.empty()) unreadable_++;
      }
  }
}

std::vector<std::uint64_t> CopiedRange::words() const {
  std::vector<std::uint64_t> all((end_ - start_) / 8);
  for (std::size_t i = 0; i < slots_.size(); i++)
    if (slots_[i])
      std::memcpy(reinterpret_cast<std::byte*>(all.data()) + (i << page_shift_),
                  bytes_.get() + (static_cast<std::uint64_t>(slots_[i] - 1) << page_shift_), page_bytes());
  return all;
}

}  // namespace heapspy::heap
