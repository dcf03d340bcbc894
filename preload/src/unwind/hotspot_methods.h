// Java's methods (and the JVM's stubs) by the numbers that the stack table knows them by. A method is named when it is first
// met on a stack: then its class cannot be unloaded. One that was unloaded and another that came to its address are told apart
// by what they consist of.
//
// Threads: any, without a lock but where a method is new. Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include <atomic>
#include <cstdint>

#include "hot.h"
#include "hotspot_structs.h"
#include "lock.h"

namespace heapspy::unwind {

class HotspotMethods {
 public:
  struct Named {
    uint32_t number;  // 0: it is none, or there is no room
    uint32_t id;      // stands for it in the index of the stack table
    bool is_mortal;   // its class may be unloaded
  };

  // Whether the offsets lead to what they should: from java.lang.Object over its first method and back.
  bool check(const HotspotStructs& structs, uint64_t object_klass);

  // `method`: a Method*, of a frame on the calling thread's stack.
  Named method(uint64_t method);
  // `name`: of a code blob that is no method; lives as long as the process.
  Named stub(const char* name);
  uint64_t private_bytes() const { return table_.load(std::memory_order_relaxed) ? kEntries * sizeof(Entry) : 0; }

 private:
  struct Entry {
    std::atomic<uint64_t> key;      // address of the method, or of a stub's name
    std::atomic<uint64_t> content;  // what it consists of
    std::atomic<uint64_t> named;    // bits 0 to 30 number, 31 is_mortal, 32 to 63 id; 0: being written
  };
  static constexpr uint64_t kEntries = 1 << 17, kMostProbes = 64;
  static constexpr uint64_t kLongestName = 2000;

  struct Text {
    const char* at;
    uint64_t bytes;
  };
  struct Parts {
    uint64_t klass;
    Text klass_name, name, signature;
  };
  uint64_t content_of(uint64_t method) const;
  bool read(uint64_t method, Parts* to) const;
  bool read_symbol(uint64_t symbol, Text* to) const;
  bool is_mortal(uint64_t klass) const;
  template <class Content, class Describe>
  Named find(uint64_t key, Content content_of, Describe describe);
  static Named unpacked(uint64_t named) {
    return {static_cast<uint32_t>(named & 0x7fffffff), static_cast<uint32_t>(named >> 32), (named >> 31 & 1) != 0};
  }
  Entry* make_table();

  const HotspotStructs* structs_;
  std::atomic<Entry*> table_;
  uint32_t numbers_;
  Lock lock_;
};

}  // namespace heapspy::unwind
