// A program whose heap is known: tests/victims/known_heap.c.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace heapspy::heap_test {

// What malloc itself says.
struct ArenaTruth {  // malloc_info, <heap>
  std::uint64_t fast_chunks = 0, fast_bytes = 0, rest_chunks = 0, rest_bytes = 0, system_bytes = 0, heaps = 1;
};
struct Truth {
  std::vector<ArenaTruth> arenas;
  bool totals = false;  // mallinfo2 was there (glibc 2.33)
  std::uint64_t arena = 0, mapped_blocks = 0, mapped_bytes = 0, in_use = 0, free = 0, top = 0;
};

class Victim {
 public:
  // Returns when the heap is built. `variables`: NAME=VALUE on top of this process's environment; `folder`: its working folder.
  explicit Victim(const std::string& shape, int threads = 0, const std::vector<std::string>& variables = {},
                  const std::string& folder = "");
  ~Victim();
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  pid_t pid() const { return pid_; }
  const Truth& truth() const { return truth_; }
  void trim();                            // returns when malloc_trim(0) has returned in it
  std::uint64_t anonymous_bytes() const;  // resident
  void abort_with_core();                 // SIGABRT; the core lies in its working folder, if the kernel writes it there
  void end();

 private:
  std::string line();
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  std::string unread_;
  bool in_arena_ = false;
  Truth truth_;
};

// Whether this process may stop and read others: not everywhere.
bool may_trace();

}  // namespace heapspy::heap_test
