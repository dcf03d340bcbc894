// What the program says beside its results.
#pragma once
#include <string_view>

namespace heapspy::cli {

// One line on stderr, "heapspy: " and the text, control characters escaped.
void say(std::string_view text);

}  // namespace heapspy::cli
