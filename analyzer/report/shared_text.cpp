#include "analyzer/report/shared_text.h"

#include <unordered_set>

namespace heapspy::report {
namespace {

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

}  // namespace

const std::string* SharedText::of(std::string_view text) {
  static std::unordered_set<std::string, Hash, std::equal_to<>> texts;  // elements stay where they are
  const auto known = texts.find(text);
  return known != texts.end() ? &*known : &*texts.emplace(text).first;
}

}  // namespace heapspy::report
