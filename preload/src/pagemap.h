// Which pages are in RAM, from /proc/self/pagemap: all at once where the kernel can (PAGEMAP_SCAN, Linux 6.7), else entry by
// entry. Documentation/admin-guide/mm/pagemap.rst.
#pragma once
#include <fcntl.h>

#include <algorithm>
#include <cstdint>

#include "os.h"

namespace heapspy {

// One at a time: its buffer is not on the stack, which may be small.
class Pagemap {
 public:
  struct Run {  // of neighbouring pages of one kind; page numbers are address / 4096
    uint64_t first, end;
    bool present, swapped, of_file, huge;
  };

  Pagemap() : file_(os::open("/proc/self/pagemap", O_RDONLY)) {}
  bool ok() const { return file_.ok(); }

  // Remembers the pages of all addresses, if they are few runs: every later look is at this one moment, and costs no call.
  // False: they are many, or the kernel cannot.
  bool remember_all() {
    constexpr uint64_t kUserSpaceEnd = (1ull << 47) - 4096;
    const long runs = os::scan_pagemap(file_.fd(), 0, kUserSpaceEnd, buffer_.runs, kMostRuns);
    if (runs >= 0 && runs < kMostRuns) runs_ = runs;
    return runs_ >= 0;
  }
  void forget() { runs_ = -1; }
  uint64_t remembered_bytes() const {
    uint64_t bytes = 0;
    for (long i = 0; i < runs_; i++)
      if (is_present(buffer_.runs[i])) bytes += buffer_.runs[i].end - buffer_.runs[i].start;
    return bytes;
  }

  // Its buffer, which nothing is in until the first look at pages.
  static constexpr size_t kBufferBytes = 12288;
  static char* buffer() { return buffer_.text; }

  // The runs of pages within [first, end) that are in RAM or swap, in order.
  template <class Visit>
  void for_each_run(uint64_t first, uint64_t end, Visit visit) {
    if (runs_ < 0) return for_each_page(first, end, visit);
    for (long i = first_run_after(first); i < runs_ && buffer_.runs[i].start / 4096 < end; i++) {
      const os::PageRun& run = buffer_.runs[i];
      visit(Run{std::max(run.start / 4096, first), std::min(run.end / 4096, end), is_present(run),
                (run.categories & os::kPageSwapped) != 0, (run.categories & os::kPageOfFile) != 0,
                (run.categories & os::kPageHuge) != 0});
    }
  }

 private:
  static constexpr long kMostRuns = kBufferBytes / sizeof(os::PageRun);

  // The page of zeros that all processes share is nobody's, for smaps as well.
  static bool is_present(const os::PageRun& run) {
    return (run.categories & (os::kPagePresent | os::kPageZero)) == os::kPagePresent;
  }

  long first_run_after(uint64_t page) const {
    long low = 0, high = runs_;
    while (low < high) {
      const long middle = (low + high) / 2;
      if (buffer_.runs[middle].end / 4096 <= page)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  template <class Visit>
  void for_each_page(uint64_t first, uint64_t end, Visit visit) {
    for (uint64_t page = first; page < end; page++) {
      const uint64_t bits = entry(page);
      const Run run = {page, page + 1, (bits >> 63 & 1) != 0, (bits >> 62 & 1) != 0, (bits >> 61 & 1) != 0, false};
      if (run.present || run.swapped) visit(run);
    }
  }

  // 0 where it cannot be read.
  uint64_t entry(uint64_t page) {
    if (page - first_ >= count_) {
      const long got = os::pread(file_.fd(), buffer_.window, sizeof buffer_.window, page * 8);
      first_ = page;
      count_ = got > 0 ? static_cast<uint64_t>(got) / 8 : 0;
    }
    return page - first_ < count_ ? buffer_.window[page - first_] : 0;
  }

  os::File file_;
  long runs_ = -1;  // not remembered
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  static inline union {
    char text[kBufferBytes];
    os::PageRun runs[kMostRuns];
    uint64_t window[512];
  } buffer_;
};

}  // namespace heapspy
