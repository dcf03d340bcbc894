// Where a command writes what is not for the terminal.
#pragma once
#include <string>

namespace heapspy::cli {

// Into this file, made new; "" or "-": to the standard output. Throws Failure.
void write_output(const std::string& path, const std::string& data);

}  // namespace heapspy::cli
