// Which loaded object an address lies in, and where its unwind data is, without the loader's lock: a hook may run while another
// thread holds it. glibc 2.35 and later are asked (_dl_find_object); before, the list that the loader keeps for debuggers is
// read (link.h, _r_debug), but not while an object is being unloaded. dlopen is not hooked for it: an interposed dlopen looks
// for libraries by its own RUNPATH and namespace instead of its caller's.
//
// Threads: any; a call of dlclose goes through Unloading. Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include <atomic>
#include <cstdint>

#include "lock.h"

namespace heapspy {

struct LoadedObject {
  uint64_t start, end;
  const void* map;  // the loader's link_map
  const uint8_t* eh_frame_header;
};

class LoadedObjects {
 public:
  // Once in a process's life: may call dlsym. False: this libc cannot tell.
  static bool set_up();

  // False: none that is known has it, or it cannot be told now.
  bool find(uint64_t pc, LoadedObject* to);

  class Unloading {
   public:
    explicit Unloading(LoadedObjects& objects);
    ~Unloading() { objects_.unloading_.fetch_sub(1, std::memory_order_release); }
    Unloading(const Unloading&) = delete;
    Unloading& operator=(const Unloading&) = delete;

   private:
    LoadedObjects& objects_;
  };

 private:
  bool find_in_list(uint64_t pc, LoadedObject* to);
  const LoadedObject* known(const void* map);

  Lock lock_;
  std::atomic<uint32_t> unloading_;
  static constexpr uint32_t kMost = 1024;
  uint32_t count_;
  LoadedObject known_[kMost];  // without _dl_find_object: what was read of each
};

}  // namespace heapspy
