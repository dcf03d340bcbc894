// System calls during which a thread is not inside malloc: those that wait or move data, and that malloc, its locks, fork
// and the delivery of signals never make.
#pragma once
#include <cstdint>
#include <string_view>

namespace heapspy::process {

bool is_quiet_call(std::int64_t number);
// Of those, the ones that Linux does not start again after a thread was stopped in them (signal(7)): they return EINTR.
bool returns_when_stopped(std::int64_t number);

// The number in the text of /proc/PID/task/TID/syscall; -1: the thread is running, or in no call.
std::int64_t parse_call_number(std::string_view text);

}  // namespace heapspy::process
