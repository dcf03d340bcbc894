// What a compiled frame consists of: the method that was compiled and those that were compiled into it, each at a place in its
// bytecode, as HotSpot's own stack walk reads them from the nmethod (code/pcDesc, code/scopeDesc, code/debugInfo). And the
// line that a place in the bytecode is of (oops/method: CompressedLineNumberReadStream).
//
// Threads: any. What it reads is code, or belongs to a method, that is on the calling thread's stack.
#pragma once
#include <cstdint>

#include "hotspot_structs.h"

namespace heapspy::unwind {

// Numbers of one to five bytes (utilities/unsigned5.hpp): six bits of each byte but the first are new. Since JDK 20 no byte is
// 0.
struct CompressedNumbers {
  const volatile uint8_t* at;
  const volatile uint8_t* end;
  uint8_t lowest;  // byte: 0, or 1 since JDK 20
  bool ok = true;

  uint8_t byte() {
    if (at >= end) return ok = false, static_cast<uint8_t>(0);
    return *at++;
  }
  uint32_t number();
  int32_t signed_number() {
    const uint32_t value = number();
    return static_cast<int32_t>(value >> 1 ^ (0 - (value & 1)));
  }
};

struct HotspotScope {
  uint64_t method;
  int32_t bci;  // negative: none
};

// The scopes of one return address, innermost first.
class HotspotScopeWalk {
 public:
  // `blob`: the nmethod; `pc`: a return address in it.
  HotspotScopeWalk(const HotspotStructs& structs, uint64_t blob, uint64_t pc);
  // Whether the nmethod says anything of this address.
  bool found() const { return next_ != 0; }
  // False: that was the outermost, or (is_broken) what stands there is no scope.
  bool next(HotspotScope* to);
  bool is_broken() const { return broken_; }

 private:
  const HotspotStructs& structs_;
  uint64_t scopes_ = 0, scopes_end_ = 0, metadata_ = 0, metadata_end_ = 0;
  uint32_t next_ = 0;  // where the next scope stands; 0: there is none
  bool broken_ = false;
};

// The source line of a method that its class file gives for a place in its bytecode; 0: it does not say.
uint32_t hotspot_line(const HotspotStructs& structs, uint64_t method, int32_t bci);

}  // namespace heapspy::unwind
