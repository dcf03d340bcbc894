// The numbers that unwind data is made of. Reads what may be damaged: never past the end.
#pragma once
#include <cstdint>

namespace heapspy::unwind {

// Bytes that are read one after another, never past their end: from there on they are zeros, and `bad`.
struct Bytes {
  const uint8_t* at;
  const uint8_t* end;
  bool bad = false;

  bool more() const { return at < end && !bad; }
  template <class T>
  T take() {
    T value{};
    if (static_cast<uint64_t>(end - at) < sizeof(T)) return bad = true, value;
    __builtin_memcpy(&value, at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  uint64_t unsigned_leb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = take<uint8_t>();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
  }
  int64_t signed_leb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = take<uint8_t>();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      shift += 7;
      if (byte & 0x80) continue;
      if (shift < 64 && byte & 0x40) value |= ~0ull << shift;
      return static_cast<int64_t>(value);
    }
  }
  void skip(uint64_t bytes) {
    if (static_cast<uint64_t>(end - at) < bytes)
      bad = true, at = end;
    else
      at += bytes;
  }
  // A pointer in one of DW_EH_PE's encodings; as a difference to its own place where the encoding says so.
  uint64_t encoded(uint8_t encoding) {
    if (encoding == 0xff /* omitted */) return 0;
    const auto base = (encoding & 0x70) == 0x10 /* relative to its place */ ? reinterpret_cast<uint64_t>(at) : 0;
    switch (encoding & 15) {
      case 0x0:
      case 0x4:
      case 0xc: return base + take<uint64_t>();
      case 0x1: return base + unsigned_leb();
      case 0x2: return base + take<uint16_t>();
      case 0x3: return base + take<uint32_t>();
      case 0x9: return base + static_cast<uint64_t>(signed_leb());
      case 0xa: return base + static_cast<uint64_t>(static_cast<int64_t>(take<int16_t>()));
      case 0xb: return base + static_cast<uint64_t>(static_cast<int64_t>(take<int32_t>()));
      default: return bad = true, 0;
    }
  }
};

}  // namespace heapspy::unwind
