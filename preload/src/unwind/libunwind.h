// HEAPSPY_STACKS=libunwind: libunwind's own unw_backtrace, for those who trust nothing else. It may take the loader's lock, and
// some kilobytes of the program's stack.
#pragma once
#include <cstdint>

namespace heapspy::unwind::libunwind {

// Opens the library; not from within a hook. False: it is not there.
bool open();
bool is_open();
// Return addresses, innermost first, those of the recorder among them; how many.
int backtrace(void** to, int room);

}  // namespace heapspy::unwind::libunwind
