// Text of unknown origin (thread names, command lines, paths) made safe and measurable for a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heapspy::report {

// Valid UTF-8 without control characters: those become \n, \t, \x1b or \u0085; bytes that are not UTF-8 become \xNN;
// marks that are invisible or turn the writing direction become \uNNNN; a backslash stays itself.
std::string printable(std::string_view raw);

// The functions below take printable text. Columns: wide (CJK, emoji) characters count 2, all others 1.
std::size_t columns(std::string_view text);
// Cut to at most `width` columns; what is cut ends in "…".
std::string fit(std::string_view text, std::size_t width);
// fit, then filled with spaces to exactly `width` columns.
std::string left(std::string_view text, std::size_t width);
std::string right(std::string_view text, std::size_t width);
// Broken at spaces into lines of at most `width` columns; words longer than that are cut into pieces. At least one line.
std::vector<std::string> wrap(std::string_view text, std::size_t width);
// Command line as one would type it: arguments quoted where a shell needs it, then made printable.
std::string command_text(const std::vector<std::string>& command);

}  // namespace heapspy::report
