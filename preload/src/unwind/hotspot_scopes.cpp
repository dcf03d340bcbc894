#include "hotspot_scopes.h"

#include "os.h"

namespace heapspy::unwind {

namespace {

uint64_t at(uint64_t address, int64_t offset) { return address + static_cast<uint64_t>(offset); }
uint64_t word_at(uint64_t address, int64_t offset) { return *reinterpret_cast<const volatile uint64_t*>(at(address, offset)); }
int32_t int_at(uint64_t address, int64_t offset) { return *reinterpret_cast<const volatile int32_t*>(at(address, offset)); }
uint32_t half_at(uint64_t address, int64_t offset) { return *reinterpret_cast<const volatile uint16_t*>(at(address, offset)); }

constexpr uint64_t kLargest = 64 << 20;

// Both ends of a range that is as long as it may be.
bool is_range(uint64_t from, uint64_t to) {
  return from >= 4096 && from < to && to - from <= kLargest && to >> 47 == 0 && os::is_readable(from & ~7ull) &&
         os::is_readable((to - 1) & ~7ull);
}

}  // namespace

uint32_t CompressedNumbers::number() {
  constexpr uint32_t kHigh = 192;  // from it on more bytes follow
  uint32_t next = byte(), value = next - lowest;
  for (unsigned shift = 6; next >= kHigh && shift <= 24; shift += 6) {
    next = byte();
    value += (next - lowest) << shift;
  }
  return value;
}

HotspotScopeWalk::HotspotScopeWalk(const HotspotStructs& s, uint64_t blob, uint64_t pc) : structs_(s) {
  uint64_t pcs, pcs_end, code;
  if (s.nmethod_immutable >= 0) {  // JDK 23 and later
    const uint64_t immutable = word_at(blob, s.nmethod_immutable);
    pcs = at(immutable, int_at(blob, s.nmethod_scope_pcs));
    scopes_ = pcs_end = at(immutable, int_at(blob, s.nmethod_scopes_offset));
    scopes_end_ = at(immutable, int_at(blob, s.nmethod_immutable_bytes));
    const uint64_t mutable_data = word_at(blob, s.blob_mutable);
    metadata_ = at(mutable_data, int_at(blob, s.blob_relocation_bytes));
    metadata_end_ = at(mutable_data, int_at(blob, s.blob_mutable_bytes));
    code = at(blob, int_at(blob, s.blob_code_offset));
  } else {
    pcs = at(blob, int_at(blob, s.nmethod_scope_pcs));
    pcs_end = at(blob, int_at(blob, s.nmethod_dependencies));
    scopes_ = word_at(blob, s.nmethod_scopes);
    scopes_end_ = pcs;
    metadata_ = at(blob, int_at(blob, s.nmethod_metadata));
    metadata_end_ = scopes_;
    code = word_at(blob, s.blob_code);
  }
  const auto bytes = static_cast<uint32_t>(s.pc_desc_bytes);
  if (!is_range(pcs, pcs_end) || !is_range(scopes_, scopes_end_) || !is_range(metadata_, metadata_end_)) return;
  const auto wanted = static_cast<int64_t>(pc - code);
  uint64_t low = 0, high = (pcs_end - pcs) / bytes;  // in ascending order
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    const int64_t offset = int_at(pcs + middle * bytes, s.pc_desc_pc);
    if (offset < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  const uint64_t entry = pcs + low * bytes;
  if (entry >= pcs_end || int_at(entry, s.pc_desc_pc) != wanted) return;
  next_ = static_cast<uint32_t>(int_at(entry, s.pc_desc_scope));
}

bool HotspotScopeWalk::next(HotspotScope* to) {
  if (!next_) return false;
  const uint32_t from = next_;
  CompressedNumbers numbers{reinterpret_cast<const volatile uint8_t*>(scopes_ + from),
                            reinterpret_cast<const volatile uint8_t*>(scopes_end_), structs_.lowest_byte};
  next_ = numbers.number();
  const uint32_t method = numbers.number();
  to->bci = static_cast<int32_t>(numbers.number()) - 1;
  // A caller was written before what was compiled into it.
  broken_ = !numbers.ok || next_ >= from || method == 0 || method > (metadata_end_ - metadata_) / 8;
  if (broken_) return next_ = 0, false;
  to->method = word_at(metadata_, 8 * static_cast<int64_t>(method - 1));
  return true;
}

uint32_t hotspot_line(const HotspotStructs& s, uint64_t method, int32_t bci) {
  if (bci < 0 || s.method_flags < 0) return 0;
  const uint64_t constant = word_at(method, s.const_method);
  if (!(half_at(constant, s.method_flags) & s.has_lines_flag)) return 0;
  const uint64_t code = half_at(constant, s.method_code_bytes);
  const uint64_t from = at(constant, s.const_method_size) + code,
                 to = constant + 8 * static_cast<uint64_t>(int_at(constant, s.method_words));
  if (static_cast<uint64_t>(bci) >= code || !is_range(from, to)) return 0;
  CompressedNumbers numbers{reinterpret_cast<const volatile uint8_t*>(from), reinterpret_cast<const volatile uint8_t*>(to),
                            s.lowest_byte};
  int64_t place = 0, line = 0, best_place = -1, best = 0;
  for (uint8_t pair; (pair = numbers.byte()) != 0;) {
    if (pair == 0xff) {
      place += numbers.signed_number();
      line += numbers.signed_number();
    } else {
      place += pair >> 3;
      line += pair & 7;
    }
    if (place < 0 || place >= static_cast<int64_t>(code) || line < 0 || line > 0xffff) return 0;
    if (place <= bci && place >= best_place) best_place = place, best = line;  // not always in order
  }
  return numbers.ok ? static_cast<uint32_t>(best) : 0;
}

}  // namespace heapspy::unwind
