#pragma once
#include <string>

namespace heapspy::exports {

// A gzip member without name and time: the same input gives the same bytes.
std::string gzip(const std::string& data);

}  // namespace heapspy::exports
