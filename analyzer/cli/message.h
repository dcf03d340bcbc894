// Text from outside (names, paths, errors) made fit for one line on a terminal.
#pragma once
#include <string>
#include <string_view>

namespace heapspy::cli {

// Control characters become \n, \t, \xNN, a backslash stays itself; other bytes pass.
std::string one_line(std::string_view text);

// Prints "heapspy: " + text on stderr, escaped, in one write.
void say(std::string_view text);

}  // namespace heapspy::cli
