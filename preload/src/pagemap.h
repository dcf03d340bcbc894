// /proc/self/pagemap, a window at a time. Bits of an entry: Documentation/admin-guide/mm/pagemap.rst.
#pragma once
#include <fcntl.h>

#include <cstdint>

#include "os.h"

namespace heapspy {

// One at a time: the window is not on the stack, which may be small.
class Pagemap {
 public:
  Pagemap() : file_(os::open("/proc/self/pagemap", O_RDONLY)) {}
  bool ok() const { return file_.ok(); }

  // The entry of a page (address / 4096); 0 where it cannot be read.
  uint64_t entry(uint64_t page) {
    if (page - first_ >= count_) load(page);
    return page - first_ < count_ ? window_[page - first_] : 0;
  }
  static bool present(uint64_t entry) { return entry >> 63 & 1; }
  static bool swapped(uint64_t entry) { return entry >> 62 & 1; }
  static bool of_file(uint64_t entry) { return entry >> 61 & 1; }

 private:
  void load(uint64_t page) {
    const long got = os::pread(file_.fd(), window_, sizeof window_, page * 8);
    first_ = page;
    count_ = got > 0 ? static_cast<uint64_t>(got) / 8 : 0;
  }

  os::File file_;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  static inline uint64_t window_[512];
};

}  // namespace heapspy
