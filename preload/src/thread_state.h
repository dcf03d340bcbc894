// What the recorder keeps per thread, and the two words of TLS that lead to it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "heapspy/format/followed_stacks.h"
#include "heapspy/format/layout.h"

namespace heapspy {

namespace unwind {
class Memoized;
}

// Rings that wrap all have this size. Most threads make few events: they begin in a ring of a quarter, and leave it for a
// whole one when it is full.
inline constexpr uint64_t kRingWords = 16384;
inline constexpr uint64_t kSmallRingWords = 2048;
// At the end of a lap so many words at least are left for what the cold path itself writes, and for signal handlers that
// come between the look at the limit and the store.
inline constexpr uint64_t kSpareWords = 128;

// A staging ring as the process sees it. Lives in the wipe-on-fork memory of the process, for ever reused.
struct Slot {
  format::SlotHeader* header;  // in the file's mapping
  uint64_t* words;             // in the file's mapping
  bool small;                  // kSmallRingWords; its owner leaves it before it is full
  uint64_t position;           // of a free slot: where the next owner begins
  Slot* next;                  // of a slot in a list: free, or filled (mode ring)
};

// What a hook does with an event of the thread:
//   forked    the memory was wiped by fork (all zero): this is the child's thread; it begins a trace of its own
//   active    records
//   ending    its thread-specific destructors run: records; the next thread that needs a ring looks whether it is gone
//   unborn    no event yet: the first one registers the thread
//   shut      the recorder itself is at work in this thread: passes through; counted as lost, because only a signal handler
//             of the program that interrupts it can come here
//   guarded   the program's call is being recorded and what it calls in turn is no event: passes through
//   never     the process is not recorded: passes through
//   lost      no ring could be had for the thread: passes through, counted
//   free      no thread: the state waits for one
enum class Life : uint32_t { forked = 0, active, ending, unborn, shut, guarded, never, lost, free };

// The first cache line is what the hot paths read and write. Lives in memory that the kernel wipes in a forked child
// (MADV_WIPEONFORK), so there it is zero and the first event takes the cold path, however the child came to be (fork, _Fork,
// clone).
struct alignas(64) ThreadState {
  uint64_t* next;                    // in the ring: where the next word goes
  uint64_t* limit;                   // at or past it the cold path is due: a stamp, a full ring, or a life other than active
  uint64_t lap;                      // bit 63 of the words of this lap of the ring
  volatile uint64_t* on_cpu;         // holds off_cpu_notice's armed value as long as the thread stays on its CPU
  format::ThreadCounters* counters;  // modes count and full, else nullptr
  int64_t until_upkeep;              // mode count: events
  int64_t until_sample;              // mode sample: bytes
  Life life;
  uint32_t id;

  Slot* slot;                         // nullptr: mode count, no stream
  unwind::Memoized* unwinder;         // stacks: stays with the state when that gets another thread
  unwind::Memoized* nested_unwinder;  // … of signal handlers that interrupt a capture
  uint64_t capture_sp;                // of the hook that captures now
  uint32_t captures;                  // hooks that do, one interrupting the other
  uint32_t last_stack;                // of the allocation before
  // The next allocation's is to be said whatever it is: after every stamp, so that a piece of a stream is soon understood by
  // itself.
  bool stacks_forgotten;
  uint64_t lap_position;  // of the ring's first word in this lap
  uint64_t last_tick;
  uint64_t stream_delta;     // position minus place in the thread's stream
  uint64_t extra_words;      // of the stream, that began no record
  ThreadState* next_free;    // of a state that is free
  uint32_t unproven_stamps;  // in a row that came by count after a long time on one CPU: is rseq still telling?
  uint32_t tid;
  bool rseq_trusted;
  bool is_main;
  uint64_t random;  // mode sample
  char name[16];
  format::FollowedStacks followed;
  // What a JVM says of the thread, of texts the beginning: repeated at the start of each ring.
  char java_name[64];
  char java_group[46];
  bool java_daemon;
  bool is_java;  // the two before are said

  uint64_t position() const { return lap_position + static_cast<uint64_t>(next - slot->words); }
  // Words of the thread's stream so far.
  uint64_t place() const { return position() - stream_delta; }
};
static_assert(offsetof(ThreadState, slot) <= 64);

// Static TLS: 16 bytes.
struct Tls {
  ThreadState* state;
  uint64_t no_rseq;  // stands in for the rseq area where there is none: holds the armed value always
};
extern constinit thread_local Tls tls __attribute__((tls_model("initial-exec")));

// A state that is nobody's: without room, so that an event takes the cold path.
constexpr ThreadState stand_in(Life life) {
  ThreadState state{};
  state.life = life;
  return state;
}

extern ThreadState shut_state, guarded_state, never_state;
// While the recorder makes a thread of its own; guarded, and calloc is served from the bootstrap arena.
extern ThreadState own_thread_state;

// The thread's events pass through, unrecorded, while one of these is in scope. Nests.
class StandIn {
 public:
  explicit StandIn(ThreadState& state) : before_(tls.state) {
    if (before_->life != Life::never) tls.state = &state;
    __asm__ volatile("" : : : "memory");
  }
  ~StandIn() {
    __asm__ volatile("" : : : "memory");
    if (before_->life != Life::never) tls.state = before_;
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  ThreadState* before_;
};
class Shut : StandIn {
 public:
  Shut() : StandIn(shut_state) {}
};
class MakingOwnThread : StandIn {
 public:
  MakingOwnThread() : StandIn(own_thread_state) {}
};
class Guarded : StandIn {
 public:
  Guarded() : StandIn(guarded_state) {}
  static bool is_now() { return tls.state == &guarded_state; }
};

}  // namespace heapspy
