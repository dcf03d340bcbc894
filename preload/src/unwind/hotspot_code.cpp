#include "hotspot_code.h"

#include "recorder.h"
#include "text.h"

namespace heapspy::unwind {

namespace {

uint64_t word_at(uint64_t address, int32_t offset) {
  return *reinterpret_cast<const volatile uint64_t*>(address + static_cast<uint64_t>(offset));
}
int32_t int_at(uint64_t address, int32_t offset) {
  return *reinterpret_cast<const volatile int32_t*>(address + static_cast<uint64_t>(offset));
}
uint8_t byte_at(uint64_t address) { return *reinterpret_cast<const volatile uint8_t*>(address); }

constexpr uint64_t kLargestCache = 4ull << 30, kLongestHeader = 512;
constexpr int32_t kMostFrameWords = 1 << 17;

}  // namespace

bool HotspotCode::is_library(const char* path) {
  constexpr char kName[] = "/libjvm.so";
  const size_t length = length_of(path);
  return length >= sizeof kName - 1 && same(path + length - (sizeof kName - 1), kName);
}

void HotspotCode::begin() {
  os::SignalsBlocked blocked;
  if (!options.java) return state_.store(State::off, std::memory_order_relaxed);
  if (!lock_.try_lock()) return;
  if (state_.load(std::memory_order_relaxed) == State::unknown) {
    const char* missing = structs_.read(library_.load(std::memory_order_relaxed));
    if (missing) message::no_java_frames(missing);
    state_.store(missing ? State::off : State::read, std::memory_order_relaxed);
  }
  // Until java.lang.Object is there, so is no Java frame.
  if (state_.load(std::memory_order_relaxed) == State::read && *structs_.code_heaps && *structs_.call_return &&
      *structs_.object_klass) {
    const char* wrong = check();
    if (wrong) message::no_java_frames(wrong);
    state_.store(wrong ? State::off : State::on, std::memory_order_relaxed);
    if (!wrong) bytes_.store(*structs_.code_high - low_, std::memory_order_release);
  }
  lock_.unlock();
}

// Nothing is believed before it has led to a piece of code that is known, and to java.lang.Object.
const char* HotspotCode::check() {
  const HotspotStructs& s = structs_;
  low_ = *s.code_low;
  const uint64_t high = *s.code_high;
  if (low_ < 4096 || high <= low_ || high - low_ > kLargestCache) return "the code cache";
  const uint64_t list = *s.code_heaps;
  const auto readable = [](uint64_t address) { return address >= 4096 && !(address & 7) && os::is_readable(address); };
  if (!readable(list) || !readable(list + static_cast<uint64_t>(s.array_data))) return "CodeCache::_heaps";
  const int32_t count = int_at(list, s.array_length);
  const uint64_t array = word_at(list, s.array_data);
  if (count < 1 || count > static_cast<int32_t>(kMostHeaps) || !readable(array)) return "CodeCache::_heaps";
  heaps_count_ = static_cast<uint32_t>(count);
  for (uint32_t i = 0; i < heaps_count_; i++) {
    const uint64_t heap = heaps_[i] = word_at(array, static_cast<int32_t>(8 * i));
    if (!readable(heap) || !readable(heap + kLongestHeader)) return "CodeHeap";
    const uint64_t from = word_at(heap, s.heap_memory + s.space_low), to = word_at(heap, s.heap_memory + s.space_high);
    const uint64_t map = word_at(heap, s.heap_map + s.space_low);
    const int32_t shift = int_at(heap, s.heap_log2);
    if (from < low_ || to > high || from > to || !readable(map) || shift < 4 || shift > 16) return "CodeHeap";
  }
  const uint64_t call = *s.call_return;
  if (call < low_ || call >= high) return "call_stub";
  const Blob blob = blob_at(call);
  if (blob.kind != Kind::call || !begins_with(blob.name, "StubRoutines")) return "call_stub";
  if (!methods.check(s, *s.object_klass)) return "java.lang.Object";
  return nullptr;
}

HotspotCode::Kind HotspotCode::kind_of(uint64_t blob, uint64_t pc) const {
  const auto* name = reinterpret_cast<const char*>(word_at(blob, structs_.blob_name));
  if (!name) return Kind::none;
  switch (name[0]) {
    case 'n':
      if (begins_with(name, "nmethod") || begins_with(name, "native nmethod")) return Kind::compiled;
      break;
    case 'I':
      if (same(name, "Interpreter")) return Kind::interpreted;
      break;
    case 'S':
      if (pc == *structs_.call_return) return Kind::call;
      break;
    case 'D':
    case 'U':
      if (begins_with(name, "Deoptimization") || begins_with(name, "UncommonTrap")) return Kind::deoptimization;
      break;
    default: break;
  }
  return Kind::stub;
}

// By the map of the heap's segments: each says how far back (at least) the first of its block is, 255 that it is free.
HotspotCode::Blob HotspotCode::blob_at(uint64_t pc) const {
  const HotspotStructs& s = structs_;
  for (uint32_t i = 0; i < heaps_count_; i++) {
    const uint64_t heap = heaps_[i];
    const uint64_t from = word_at(heap, s.heap_memory + s.space_low);
    if (pc < from || pc >= word_at(heap, s.heap_memory + s.space_high)) continue;
    const uint64_t map = word_at(heap, s.heap_map + s.space_low), map_end = word_at(heap, s.heap_map + s.space_high);
    const int32_t shift = int_at(heap, s.heap_log2);
    uint64_t segment = (pc - from) >> shift;
    if (segment >= map_end - map || byte_at(map + segment) == 0xff) return {};
    for (uint8_t back; (back = byte_at(map + segment)) != 0; segment -= back)
      if (back > segment) return {};
    const uint64_t block = from + (segment << shift);
    if (!byte_at(block + static_cast<uint64_t>(s.block_used))) return {};
    const uint64_t blob = block + static_cast<uint64_t>(s.block_bytes);
    const int32_t words = int_at(blob, s.blob_frame_words);
    const Kind kind = kind_of(blob, pc);
    const bool by_frame = (kind == Kind::stub || kind == Kind::deoptimization) && words <= 0;
    if (kind == Kind::compiled && words <= 0) return {};
    if (words > kMostFrameWords) return {};
    return {by_frame ? Kind::by_frame : kind, static_cast<uint32_t>(words > 0 ? words : 0), blob,
            reinterpret_cast<const char*>(word_at(blob, s.blob_name))};
  }
  return {};
}

}  // namespace heapspy::unwind
