// The clock of stamps: four cycles of the TSC a tick where it is invariant, else nanoseconds of CLOCK_MONOTONIC.
#pragma once
#include <time.h>

#include <cstdint>

#include "heapspy/format/layout.h"
#include "os.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heapspy {

class TickClock {
 public:
  // Makes now tick 0.
  void start() {
    kind_ = has_invariant_tsc() ? format::TickKind::tsc4 : format::TickKind::nanosecond;
    origin_ = raw();
  }
  format::TickKind kind() const { return kind_; }
  uint64_t origin() const { return origin_; }

  // Ordered against what comes before and after it in the thread: without the fences thousands of events of contended
  // blocks came out in the wrong order.
  uint64_t now() const {
    const uint64_t value = raw() - origin_;
    return kind_ == format::TickKind::tsc4 ? value >> 2 : value;
  }

 private:
  static bool has_invariant_tsc() {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#else
    return false;
#endif
  }
  uint64_t raw() const {
#if defined(__x86_64__)
    if (kind_ == format::TickKind::tsc4) {
      uint32_t low, high;
      asm volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
      return static_cast<uint64_t>(high) << 32 | low;
    }
#endif
    return os::clock_ns(CLOCK_MONOTONIC);
  }

  format::TickKind kind_ = format::TickKind::nanosecond;
  uint64_t origin_ = 0;
};

}  // namespace heapspy
