#include "analyzer/symbols/demangle.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace heapspy::symbols {

namespace {

constexpr std::size_t kHashDigits = 16;

// "::h" and 16 hexadecimal digits at the end: what Rust adds to each name of its older scheme.
bool has_rust_hash(std::string_view name) {
  if (name.size() < kHashDigits + 3 || name.substr(name.size() - kHashDigits - 3, 3) != "::h") return false;
  for (const char c : name.substr(name.size() - kHashDigits))
    if (!std::isxdigit(static_cast<unsigned char>(c)) || std::isupper(static_cast<unsigned char>(c))) return false;
  return true;
}

// What stands for characters that an identifier cannot have (rustc_symbol_mangling, legacy).
std::string rust_text(std::string_view name) {
  static constexpr std::pair<std::string_view, char> kEscapes[] = {{"$SP$", '@'}, {"$BP$", '*'}, {"$RF$", '&'}, {"$LT$", '<'},
                                                                   {"$GT$", '>'}, {"$LP$", '('}, {"$RP$", ')'}, {"$C$", ','}};
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    const std::string_view rest = name.substr(i);
    if (rest.starts_with("_$") && (i == 0 || name[i - 1] == ':')) {
      i++;  // keeps an element from beginning with '$'
      continue;
    }
    if (rest.starts_with("..")) {
      text += "::";
      i += 2;
      continue;
    }
    std::size_t used = 0;
    for (const auto& [escape, character] : kEscapes)
      if (rest.starts_with(escape)) {
        text += character;
        used = escape.size();
        break;
      }
    if (!used && rest.starts_with("$u")) {
      char* end = nullptr;
      const std::string digits(rest.substr(2, rest.find('$', 2) == std::string_view::npos ? 0 : rest.find('$', 2) - 2));
      const unsigned long code = std::strtoul(digits.c_str(), &end, 16);
      if (!digits.empty() && *end == 0 && code >= 0x20 && code < 0x7F) {
        text += static_cast<char>(code);
        used = digits.size() + 3;
      }
    }
    if (!used) text += name[i], used = 1;
    i += used;
  }
  return text;
}

}  // namespace

std::string demangle(const char* name) {
  if (!name) return {};
  const std::string_view mangled(name);
  if (!mangled.starts_with("_Z") && !mangled.starts_with("__Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  if (status != 0 || !readable) return name;
  const std::string_view text(readable.get());
  return has_rust_hash(text) ? rust_text(text.substr(0, text.size() - kHashDigits - 3)) : std::string(text);
}

}  // namespace heapspy::symbols
