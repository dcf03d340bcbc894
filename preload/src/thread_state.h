// What the recorder keeps per thread, and the two words of TLS that lead to it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "heapspy/format/layout.h"

namespace heapspy {

// A staging ring as the process sees it. Lives in the wipe-on-fork memory of the process, for ever reused.
struct Slot {
  format::SlotHeader* header;  // in the file's mapping
  uint64_t* words;             // in the file's mapping
  uint64_t ring_words;         // a power of two
  uint64_t position;           // of a free slot: where the next owner begins
  Slot* next_free;
};

// A thread's life. In each state, what a hook does:
//   unborn    no event yet: the first one registers the thread
//   active    records
//   ending    its thread-specific destructors run: records; the next thread that needs a ring looks whether it is gone
//   forked    the memory was wiped by fork (all zero): this is the child's thread; it begins a trace of its own
enum class Life : uint32_t { forked = 0, active = 1, ending = 2, unborn = 3 };

// The first cache line is what the hot path reads and writes. Lives in memory that the kernel wipes in a forked child
// (MADV_WIPEONFORK), so there `position` and `limit` are 0 and the first event takes the cold path, however the child came
// to be (fork, _Fork, clone).
struct alignas(64) ThreadState {
  uint64_t position;   // in the slot, in words: where the next word goes
  uint64_t limit;      // at or past it the cold path is due (a stamp, a full half, or a state other than active)
  uint64_t* words;     // of the slot
  uint64_t mask;       // ring words - 1
  uint32_t lap_shift;  // log2(ring words)
  Life life;
  uint32_t id;
  uint32_t tid;

  Slot* slot;
  uint64_t last_tick;
  uint64_t stream_delta;     // position minus place in the thread's stream
  uint32_t unproven_stamps;  // in a row that came by count after a long time on one CPU: is rseq still telling?
  bool rseq_trusted;
  bool is_main;
  char name[16];
};
static_assert(offsetof(ThreadState, slot) == 48);

// Static TLS: 24 bytes. `busy` non-zero: the hooks pass everything through (the recorder is at work in this thread, or
// the process is not recorded).
struct Tls {
  ThreadState* state;
  volatile uint8_t busy;
  uint64_t no_rseq;  // stands in for the rseq area where there is none: holds the armed value always
};
extern thread_local Tls tls __attribute__((tls_model("initial-exec")));

inline constexpr uint8_t kNotBusy = 0, kInRecorder = 1, kNeverRecord = 2;

// The recorder's own work is no event. Nests.
class Busy {
 public:
  Busy() : before_(tls.busy) { tls.busy = before_ | kInRecorder; }
  ~Busy() { tls.busy = static_cast<uint8_t>((tls.busy & ~kInRecorder) | before_); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  uint8_t before_;
};

}  // namespace heapspy
