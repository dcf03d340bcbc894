// What a trace says happened, in one order over all threads, each free already joined to the block it ends.
// timeline.h produces it, the model's observers consume it.
#pragma once
#include <cstdint>
#include <string_view>

#include "heapspy/format/record.h"

namespace heapspy::trace {

using format::Origin;
using format::Release;

// Ticks since the start of the process (format/layout.h: FileHeader::origin). Clock turns them into seconds.
using Tick = std::uint64_t;

// Unique in a trace, from 1; none is 0. The kernel's tid may be reused.
enum class ThreadId : std::uint32_t { none = 0 };
// One call stack, from 1; none is 0 (not recorded).
enum class SiteId : std::uint32_t { none = 0 };

inline constexpr std::uint32_t index(ThreadId id) { return static_cast<std::uint32_t>(id); }
inline constexpr std::uint32_t index(SiteId id) { return static_cast<std::uint32_t>(id); }

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;            // bytes asked for
  Tick born = 0;                     // of the allocation, not of a later realloc
  ThreadId thread = ThreadId::none;  // that allocated (or last reallocated) it
  SiteId site = SiteId::none;
  Origin origin = Origin::malloc;
  bool known = true;  // false: its allocation is not in the trace; size and born are 0
  // Allocated by the parent before fork, and known from the parent's trace (inherited.h): `born` is 0, `lived_before` says how
  // long it had lived at tick 0, `thread` is one of InheritedBlocks. Not among the blocks of this process that observers sum.
  bool inherited = false;
  Tick lived_before = 0;
};

struct Snapshot;

// Called in the order of the merged timeline, by one thread. References live until the call returns.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void allocated(const Block&, Tick) {}
  virtual void released(const Block&, ThreadId /*by*/, Release, Tick) {}
  // realloc(p, 0) gave the block back: a release like any other, told apart only for those who count calls.
  virtual void released_by_realloc(const Block& block, ThreadId by, Tick tick) { released(block, by, Release::free, tick); }
  // A realloc of an existing block to more than 0 bytes that succeeded. `after.born` is `before.born`; `before` may be
  // unknown (known == false), and may then still say what is known of an inherited block.
  virtual void resized(const Block& /*before*/, const Block& /*after*/, ThreadId /*by*/, Tick) {}
  // How many whole pages of the block that this thread releases or resizes next were touched (HEAPSPY_TOUCH). It may be told
  // before the block's allocation.
  virtual void touched(ThreadId, std::uint64_t /*address*/, std::uint64_t /*pages*/) {}
  virtual void failed(ThreadId, Origin, std::uint64_t /*size*/, Tick) {}
  // A free of an address where no block lives as far as the trace knows. `inherited`: the process was forked and the
  // address was never allocated in it, so the parent allocated it.
  virtual void unknown_release(ThreadId, std::uint64_t /*address*/, Release, bool /*inherited*/, Tick) {}
  // The same of a block that the parent's trace knows.
  virtual void inherited_release(const Block& block, ThreadId by, Release release, Tick tick) {
    unknown_release(by, block.address, release, true, tick);
  }
  // The same of a block that was allocated while nothing was recorded: before the span of a ring, in a gap of it, in a pause.
  virtual void unrecorded_release(ThreadId by, std::uint64_t address, Release release, Tick tick) {
    unknown_release(by, address, release, false, tick);
  }
  // An inherited block cannot live any more because its address was given out again: its end lies on the other side of the
  // fork, or was lost.
  virtual void inherited_gone(const Block&, Tick) {}
  // The block cannot live any more because its address was given out again, but no call that ended it is in the trace
  // (events were lost there). It counts as no release; whoever sums live blocks takes it out.
  virtual void vanished(const Block&, Tick) {}
  // An end that `released` had told never came: the address was given out again, and whatever gave the block back went past
  // the recorder. Takes that release back; the block's end stands.
  virtual void release_unseen(const Block&, ThreadId /*said*/) {}
  // A block whose whole life came before the one that lives at its address now, which is told already: told late, as a life of
  // no length. Whoever follows what lives at an address has nothing to do.
  virtual void lived_before(const Block& block, ThreadId by, Release release, Tick tick) {
    allocated(block, tick);
    released(block, by, release, tick);
  }
  // The block was ended by another thread than `released` had said (merge repair; rare).
  virtual void reattributed(const Block&, ThreadId /*said*/, ThreadId /*is*/) {}
  virtual void thread_started(ThreadId, std::uint32_t /*tid*/, std::string_view /*name*/, std::uint64_t /*stack_address*/,
                              Tick) {}
  virtual void thread_named(ThreadId, std::string_view /*name*/, Tick) {}
  // `group`: "" not known.
  virtual void thread_is_java(ThreadId, std::string_view /*group*/, bool /*daemon*/) {}
  virtual void thread_ended(ThreadId, Tick) {}
  virtual void marked(ThreadId, std::string_view /*text*/, Tick) {}
  // The program paused recording, or went on (heapspy_stop, heapspy_start): what happened in between is not in the trace.
  virtual void recording_switched(ThreadId, bool /*on*/, Tick) {}
  virtual void snapshot_taken(const Snapshot&) {}
};

}  // namespace heapspy::trace
