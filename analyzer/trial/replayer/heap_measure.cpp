#include "heap_measure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "own_memory.h"

namespace heapspy::trial {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAboutIsEnough = 16 << 20;  // the kernel's counters may be some hundred KiB behind
constexpr uint32_t kMostPoints = 4 * HeapMeasure::kCurvePoints;

uint64_t number_at(const char* at) {
  uint64_t value = 0;
  while (*at == ' ' || *at == '\t') at++;
  while (*at >= '0' && *at <= '9') value = value * 10 + static_cast<uint64_t>(*at++ - '0');
  return value;
}

int open_file(const char* path) {
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) fail(path);
  return fd;
}

}  // namespace

uint64_t HeapMeasure::read_number(int fd, const char* key) const {
  char text[4096];
  const ssize_t got = pread(fd, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* at = strstr(text, key);
  return at ? number_at(at + strlen(key)) : 0;
}

// The kernel walks the page tables for it.
uint64_t HeapMeasure::exact_bytes() const { return read_number(rollup_, "Anonymous:") * 1024; }

// Resident less shared pages, from counters: "size resident shared …".
uint64_t HeapMeasure::about_bytes() const {
  char text[256];
  const ssize_t got = pread(statm_, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* resident = strchr(text, ' ');
  const char* shared = resident ? strchr(resident + 1, ' ') : nullptr;
  if (!shared) return 0;
  const uint64_t all = number_at(resident), of_files = number_at(shared);
  return all > of_files ? (all - of_files) * kPage : 0;
}

void HeapMeasure::begin(uint64_t duration_us) {
  rollup_ = open_file("/proc/self/smaps_rollup");
  statm_ = open_file("/proc/self/statm");
  const int memory = open_file("/proc/meminfo");
  budget_ = read_number(memory, "MemAvailable:") * 1024 / 10 * 9;
  close(memory);
  if (!budget_) budget_ = ~0ull;
  curve_ = static_cast<Point*>(shared_memory(kMostPoints * sizeof(Point)));
  point_step_us_ = duration_us / kCurvePoints + 1;
  baseline_ = exact_bytes();
  about_baseline_ = about_bytes();
  if (!baseline_) give_up("/proc/self/smaps_rollup does not say what is anonymous");
}

uint64_t HeapMeasure::measure() {
  const uint64_t began = cpu_ns();
  const uint64_t now = exact_bytes();
  const uint64_t heap = now > baseline_ ? now - baseline_ : 0;
  if (heap > peak_) {
    peak_ = heap;
    peak_operation_ = operation;
    look_after_ = peak_ / 256 > kLeastGrowth ? peak_ / 256 : kLeastGrowth;
  }
  own_cpu_ns_ += cpu_ns() - began;
  return heap;
}

uint64_t HeapMeasure::about_heap() const {
  const uint64_t now = about_bytes();
  return now > about_baseline_ ? now - about_baseline_ : 0;
}

void HeapMeasure::refuse_beyond(uint64_t more) const {
  if (more > budget_ || about_heap() > budget_ - more) give_up("the heap would take more memory than this machine has free");
}

void HeapMeasure::look() {
  grown_ = 0;
  calls_ = 0;
  const uint64_t heap = about_heap();
  if (heap > about_peak_) about_peak_ = heap;
  // Far enough above the peak that an exact look is worth its time.
  if (heap > peak_ + kLeastGrowth && heap > peak_ + peak_ / 64) measure();
}

uint64_t HeapMeasure::peak() const { return about_peak_ > peak_ && about_peak_ >= kAboutIsEnough ? about_peak_ : peak_; }

void HeapMeasure::add_point(uint64_t time_us) {
  next_point_us_ = time_us + point_step_us_;
  const uint64_t heap = measure();
  if (points_ < kMostPoints) curve_[points_++] = {time_us, heap};
}

}  // namespace heapspy::trial
