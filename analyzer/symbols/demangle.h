// Names as the compiler wrote them into symbol tables, made readable.
#pragma once
#include <string>

namespace heapspy::symbols {

// C++ (Itanium ABI) and Rust's older scheme, whose hash is left out. Whatever else comes back as it was, Rust's newer names
// (_R…) among them.
std::string demangle(const char* name);

}  // namespace heapspy::symbols
