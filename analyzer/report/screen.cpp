#include "analyzer/report/screen.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace heapspy::report {

Screen screen_of_stdout() {
  Screen screen;
  screen.terminal = isatty(STDOUT_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = no_colour != nullptr && *no_colour != 0;  // no-color.org: set and not empty
  screen.colour = screen.terminal && !refused && !(term != nullptr && std::strcmp(term, "dumb") == 0);
  return screen;
}

}  // namespace heapspy::report
