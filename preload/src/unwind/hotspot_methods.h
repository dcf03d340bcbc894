// Java's methods (and the JVM's stubs) by the numbers that the stack table knows them by. A method is named when it is first
// met on a stack: then its class cannot be unloaded. One that was unloaded and another that came to its address are told apart
// by what they consist of.
//
// Where the JVM says it, a frame is a place: the lines of the method and of those that were compiled into it. Places have
// numbers of the same row.
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
    bool is_place;    // number of a place, not of a method
  };

  // Whether the offsets lead to what they should: from java.lang.Object over its first method and back.
  bool check(const HotspotStructs& structs, uint64_t object_klass);

  // `method`: a Method*, of a frame on the calling thread's stack.
  Named method(uint64_t method);
  // A frame of compiled code: `blob` its nmethod, `pc` and `sp` the frame's.
  Named compiled(uint64_t blob, uint64_t pc, uint64_t sp);
  // Which code that is: changes when other code comes to the same address.
  uint64_t code_identity(uint64_t blob) const {
    const auto at = [&](int32_t offset) { return blob + static_cast<uint64_t>(offset); };
    const uint64_t method = *reinterpret_cast<const volatile uint64_t*>(at(structs_->nmethod_method));
    if (!structs_->has_scopes) return method;
    return method | static_cast<uint64_t>(*reinterpret_cast<const volatile uint32_t*>(at(structs_->nmethod_compile_id))) << 48;
  }
  // The same by the address of its Method*.
  uint64_t identity_at(uint64_t slot) const { return code_identity(slot - static_cast<uint64_t>(structs_->nmethod_method)); }
  // Where in the bytecode of a method `bcp` is, from bit 48 on: with the Method* it is all that makes an interpreter's frame.
  uint64_t bci_bits(uint64_t method, uint64_t bcp) const {
    if (structs_->method_flags < 0) return 0;
    const uint64_t constant =
        *reinterpret_cast<const volatile uint64_t*>(method + static_cast<uint64_t>(structs_->const_method));
    const uint64_t bci = bcp - (constant + static_cast<uint64_t>(structs_->const_method_size));
    return (bci < 0xffff ? bci : 0xffff) << 48;
  }
  // A frame of the interpreter whose place in the bytecode is `bcp`.
  Named interpreted(uint64_t method, uint64_t bcp);
  // `name`: of a code blob that is no method; lives as long as the process.
  Named stub(const char* name);
  uint64_t private_bytes() const { return table_.load(std::memory_order_relaxed) ? kEntries * sizeof(Entry) : 0; }

 private:
  struct Entry {
    std::atomic<uint64_t> key;      // address of the method, of a place in code or bytecode, or of a stub's name
    std::atomic<uint64_t> content;  // what it consists of
    std::atomic<uint64_t> named;    // bits 0 to 29 number, 30 is_place, 31 is_mortal, 32 to 63 id; 0: being written
  };
  static constexpr uint64_t kEntries = 1 << 17, kMostProbes = 64;
  static constexpr uint64_t kLongestName = 2000;
  static constexpr uint32_t kMostScopes = 200;

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
    return {static_cast<uint32_t>(named & 0x3fffffff), static_cast<uint32_t>(named >> 32), (named >> 31 & 1) != 0,
            (named >> 30 & 1) != 0};
  }
  Entry* make_table();
  uint64_t known(uint64_t key, uint64_t content) const;
  Entry* room_for(uint64_t key);
  template <class ForEach>
  Named place(uint64_t key, uint64_t content, bool is_mortal, ForEach for_each_scope);

  const HotspotStructs* structs_;
  std::atomic<Entry*> table_;
  uint32_t numbers_;
  std::atomic<bool> without_places_;  // what was read made no sense
  Lock lock_;
};

}  // namespace heapspy::unwind
