// Quantities as a reader of a report sees them. The same everywhere, so that figures of two reports can be compared.
#pragma once
#include <cstdint>
#include <string>

namespace heapspy::findings {

// "48 B", "1.5 KiB", "752.0 MiB": powers of 1024, one decimal above bytes.
std::string bytes_text(std::uint64_t bytes);
// As bytes_text with a sign: "+64.0 MiB", "-1.5 KiB", "0 B".
std::string change_text(std::int64_t bytes);
// "2 431 118".
std::string count_text(std::uint64_t count);
// "+1 204", "-3", "0".
std::string count_change_text(std::int64_t count);
// "12.3 us", "4.0 ms", "9.8 s", "340 s".
std::string seconds_text(double seconds);
// Share of a whole as "12 %"; "" where the whole is 0. What is above 0 and rounds to 0 is "<1 %".
std::string percent_text(std::uint64_t part, std::uint64_t whole);
// "1 block", "2 blocks".
std::string plural_text(std::uint64_t count, const char* one, const char* many);

}  // namespace heapspy::findings
