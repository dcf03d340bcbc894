// Code that HotSpot made: whose is a return address in the code cache, and how to get from its frame to the caller's. Nothing
// is kept of it: code is unmade, and other code comes to its place; what is on a stack stays.
//
// Found when a stack first leads into code of no library after libjvm.so was met. What does not look as it should turns it off.
//
// Threads: any. Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include <atomic>
#include <cstdint>

#include "hotspot_methods.h"
#include "hotspot_structs.h"
#include "lock.h"

namespace heapspy::unwind {

class HotspotCode {
 public:
  enum class Kind : uint8_t {
    none,            // no code is there
    compiled,        // CFA = rsp + 8 * frame_words, rbp at CFA - 16
    stub,            // the same, but no method
    interpreted,     // rbp is a frame pointer, the caller's sp at rbp - 8, the Method* at rbp - 24
    call,            // of Java by native code: rbp is a frame pointer
    deoptimization,  // a stub beyond which interpreter frames may be unfinished
    by_frame,        // a stub of unknown layout
  };
  struct Blob {
    Kind kind;
    uint32_t frame_words;
    uint64_t start;
    const char* name;
  };

  static bool is_library(const char* path);
  void note_library(const void* map) { library_.store(map, std::memory_order_release); }
  // An address outside all libraries was met.
  void look_for_it() {
    if (library_.load(std::memory_order_acquire) && state_.load(std::memory_order_relaxed) < State::on) begin();
  }

  // There is a JVM, and its code is not to be walked, or cannot be. In it rbp is no frame pointer.
  bool is_left_out() const { return state_.load(std::memory_order_relaxed) == State::off; }
  bool covers(uint64_t pc) const {
    const uint64_t bytes = bytes_.load(std::memory_order_acquire);
    return pc - low_ < bytes;
  }
  // Of an address that is covered.
  Blob blob_at(uint64_t pc) const;
  // Where a blob of Kind::compiled has its Method*.
  const uint64_t* method_slot(const Blob& blob) const {
    return reinterpret_cast<const uint64_t*>(blob.start + static_cast<uint64_t>(structs_.nmethod_method));
  }

  HotspotMethods methods;

 private:
  enum class State : uint8_t { unknown, read, on, off };
  static constexpr uint32_t kMostHeaps = 8;

  void begin();
  const char* check();
  Kind kind_of(uint64_t blob, uint64_t pc) const;

  std::atomic<uint64_t> bytes_;  // 0: off
  uint64_t low_;
  uint32_t heaps_count_;
  uint64_t heaps_[kMostHeaps];
  HotspotStructs structs_;
  std::atomic<const void*> library_;
  std::atomic<State> state_;
  Lock lock_;
};

}  // namespace heapspy::unwind
