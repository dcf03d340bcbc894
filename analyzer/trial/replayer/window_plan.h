// Which operations of a window each thread plays, so that threads of a window need not wait for each other.
//
// Where two threads' operations on one slot fall into one window, the later one is put off to the beginning of its thread's
// part in the next; windows are played one after the other. A window ends early where an operation would have to be put off
// twice, or where the place of a thread that has ended is taken again.
//
// One thread plans while others play what it planned before. Memory: 4 bytes an operation of a window, 10 a thread.
#pragma once
#include <stdint.h>

#include "../operation.h"

namespace heapspy::trial {

struct Window {
  struct Part {  // of one thread: order[from, to)
    uint32_t from, to;
  };
  uint64_t first = 0;       // operation; those before it are of earlier windows …
  uint64_t base = 0;        // … `order` counts from here
  uint32_t operations = 0;  // that belong to it by their time, put off or not
  bool is_last = false;     // nothing comes after it
  uint32_t threads = 0, endings = 0;
  uint32_t* who;    // threads that have a part
  uint32_t* ended;  // of these, such that end in it
  Part* parts;      // by thread
  uint16_t* order;
};

class WindowPlan {
 public:
  static constexpr uint32_t kWindow = 4096;    // operations at most …
  static constexpr uint64_t kWindowUs = 1000;  // … and of recorded time

  // `operations` are those of a file, up to Play::end.
  void begin(const Operation* operations, uint32_t threads);
  // The next window, into the room of the one before the last.
  Window& next();

 private:
  enum : uint8_t { kPutOff = 1, kOver = 2 };  // in this window an operation of the thread was put off; it ends

  bool put_off(uint64_t at, bool* end_of_window) const;
  void take_part(Window&, uint64_t at);
  bool is_put_off(uint64_t at) const { return late_[at % (2 * kWindow)]; }

  const Operation* operations_ = nullptr;
  uint64_t next_ = 0, before_ = 0, first_ = 0;  // of the next window, the last and, while it is planned, the one at hand
  uint8_t* late_ = nullptr;                     // of the operations of two windows: put off
  uint64_t *carried_ = nullptr, *putting_off_ = nullptr;  // from the window before, to the next
  uint32_t carried_count_ = 0, putting_off_count_ = 0;
  uint8_t* state_ = nullptr;  // of each thread
  uint32_t* seen_ = nullptr;  // threads that have a state
  uint32_t seen_count_ = 0;
  Window windows_[2];
  uint32_t turn_ = 0;
};

}  // namespace heapspy::trial
