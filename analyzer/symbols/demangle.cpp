#include "analyzer/symbols/demangle.h"

#include <cxxabi.h>
#include <libiberty/demangle.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace heapspy::symbols {

std::string demangle(const char* name) {
  if (!name) return {};
  const std::string_view mangled(name);
  const bool is_itanium = mangled.starts_with("_Z") || mangled.starts_with("__Z");
  if (!is_itanium && !mangled.starts_with("_R")) return name;
  using Text = std::unique_ptr<char, void (*)(void*)>;
  // Rust's older names are Itanium's that end in a hash: rust_demangle knows them from C++, and leaves the hash out.
  if (const Text rust(rust_demangle(name, DMGL_NO_OPTS), std::free); rust) return rust.get();
  if (!is_itanium) return name;
  int status = 0;
  const Text readable(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && readable ? readable.get() : name;
}

}  // namespace heapspy::symbols
