// Where a report is written to: what may be drawn there.
#pragma once
#include <cstddef>

namespace heapspy::report {

inline constexpr std::size_t kWidth = 100;  // columns, whatever the terminal has: reports are pasted into tickets

struct Screen {
  bool terminal = false;  // bars and sparklines; else plain columns of numbers
  bool colour = false;    // a terminal, and NO_COLOR is not set
};

// Of this process's stdout (isatty, NO_COLOR, TERM=dumb).
Screen screen_of_stdout();

}  // namespace heapspy::report
