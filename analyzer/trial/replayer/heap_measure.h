// What the heap takes: private anonymous memory in RAM beyond what was there at the start. One thread at a time.
#pragma once
#include <stdint.h>

namespace heapspy::trial {

struct Point {
  uint64_t time_us, bytes;
};

class HeapMeasure {
 public:
  static constexpr uint32_t kCurvePoints = 200;

  // Opens what it reads, before the first call is played. `duration_us`: of the trace.
  void begin(uint64_t duration_us);

  // The heap is about to get so many more bytes. Gives up where the machine has not so many.
  void expect(uint64_t bytes) {
    if (bytes >= kLeastGrowth) refuse_beyond(bytes);
  }
  // It got them: a look at the counters is due now and then.
  void grew(uint64_t bytes) {
    grown_ += bytes;
    if (grown_ >= look_after_ || ++calls_ >= kCallsPerLook) look();
  }
  uint64_t next_point_us() const { return next_point_us_; }  // of the curve
  uint64_t point_step_us() const { return point_step_us_; }
  void add_point(uint64_t time_us);
  uint64_t measure();  // exact

  uint64_t peak() const;
  uint64_t baseline() const { return baseline_; }  // anonymous memory before the first call: the allocator's own, too
  uint64_t peak_operation() const { return peak_operation_; }
  uint64_t own_cpu_ns() const { return own_cpu_ns_; }  // that measuring took
  uint32_t points() const { return points_; }
  const Point& point(uint32_t i) const { return curve_[i]; }

  uint64_t operation = 0;  // that is played: for peak_operation()

 private:
  static constexpr uint64_t kLeastGrowth = 64 << 10;
  static constexpr uint32_t kCallsPerLook = 1024;

  void look();
  void refuse_beyond(uint64_t more) const;
  uint64_t about_heap() const;
  uint64_t read_number(int fd, const char* key) const;
  uint64_t exact_bytes() const;
  uint64_t about_bytes() const;

  int rollup_ = -1, statm_ = -1;
  uint64_t baseline_ = 0, about_baseline_ = 0, budget_ = 0;
  uint64_t peak_ = 0, about_peak_ = 0, peak_operation_ = 0;
  uint64_t grown_ = 0, look_after_ = kLeastGrowth, own_cpu_ns_ = 0;
  uint32_t calls_ = 0, points_ = 0;
  uint64_t next_point_us_ = 0, point_step_us_ = 1;
  Point* curve_ = nullptr;
};

}  // namespace heapspy::trial
