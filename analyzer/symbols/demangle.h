// Names as the compiler wrote them into symbol tables, made readable.
#pragma once
#include <string>

namespace heapspy::symbols {

// C++ (Itanium ABI) and both schemes of Rust, without hashes. Whatever else comes back as it was.
std::string demangle(const char* name);

}  // namespace heapspy::symbols
