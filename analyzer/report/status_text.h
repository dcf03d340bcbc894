// Figures of /proc/PID/status, as a snapshot holds its text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapspy::report {

// "VmHWM:\t  123 kB" in /proc/PID/status, in bytes.
std::optional<std::uint64_t> status_bytes(const std::string& status, std::string_view key);

}  // namespace heapspy::report
