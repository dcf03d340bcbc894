// Which glibc a library's file is of.
#pragma once
#include <optional>
#include <string>

namespace heapspy::heap {

// 36 for "GNU C Library (…) stable release version 2.36." in the file; nullopt: not in it (static programs), or unreadable.
std::optional<unsigned> glibc_minor_of(const std::string& path);

}  // namespace heapspy::heap
