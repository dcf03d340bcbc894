#include "analyzer/trace/java_name.h"

#include <algorithm>

namespace heapspy::trace {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "shop/Cart$$Lambda$14+0x0000000800c03000" → "shop/Cart$$Lambda".
std::string_view without_number(std::string_view klass) {
  for (const std::string_view mark : {"+0x", "/0x"})
    if (const std::size_t at = klass.rfind(mark); at != std::string_view::npos) klass = klass.substr(0, at);
  constexpr std::string_view kLambda = "$$Lambda$";
  const std::size_t lambda = klass.rfind(kLambda);
  if (lambda != std::string_view::npos &&
      std::all_of(klass.begin() + static_cast<std::ptrdiff_t>(lambda + kLambda.size()), klass.end(), is_digit))
    klass = klass.substr(0, lambda + kLambda.size() - 1);
  return klass;
}

const char* primitive(char letter) {
  switch (letter) {
    case 'B': return "byte";
    case 'C': return "char";
    case 'D': return "double";
    case 'F': return "float";
    case 'I': return "int";
    case 'J': return "long";
    case 'S': return "short";
    case 'Z': return "boolean";
    default: return "?";
  }
}

// "[BI" → "byte[], int".
std::string parameters(std::string_view types) {
  std::string text;
  while (!types.empty()) {
    const std::size_t depth = std::min(types.find_first_not_of('['), types.size());
    types.remove_prefix(depth);
    if (types.empty()) break;
    if (!text.empty()) text += ", ";
    if (types[0] == 'L') {
      const std::size_t end = std::min(types.find(';'), types.size());
      const std::string_view klass = types.substr(1, end - 1);
      text += klass.substr(klass.rfind('/') + 1);
      types.remove_prefix(std::min(end + 1, types.size()));
    } else {
      text += primitive(types[0]);
      types.remove_prefix(1);
    }
    for (std::size_t i = 0; i < depth; i++) text += "[]";
  }
  return text;
}

}  // namespace

std::string java_name(std::string_view spelled) {
  const std::size_t open = spelled.find('('), close = spelled.rfind(')');
  const std::size_t dot = open == std::string_view::npos ? open : spelled.rfind('.', open);
  if (spelled.starts_with('[') || dot == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::string(spelled);
  std::string text(without_number(spelled.substr(0, dot)));
  std::replace(text.begin(), text.end(), '/', '.');
  text += spelled.substr(dot, open - dot);
  return text + "(" + parameters(spelled.substr(open + 1, close - open - 1)) + ")";
}

}  // namespace heapspy::trace
