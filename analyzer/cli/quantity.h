// Numbers as the commands print them.
#pragma once
#include <cstdint>
#include <string>

namespace heapspy::cli {

// "0 B", "812 B", "3.4 KiB", "752.0 MiB", "1.25 GiB".
std::string bytes_text(std::uint64_t bytes);
// "412 µs", "3.2 ms", "14.21 s".
std::string seconds_text(double seconds);
// "2 431 118".
std::string count_text(std::uint64_t count);

}  // namespace heapspy::cli
