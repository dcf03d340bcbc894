#include "analyzer/report/site_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/report/printable.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kLongArguments = 24;  // columns of template arguments that are shown
constexpr std::size_t kShortPath = 40;      // paths up to this length are shown whole
constexpr std::size_t kPathParts = 3;
constexpr std::ptrdiff_t kNameless = 4;  // frames that are looked at for a name

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// How long the name of an operator is that begins at `at`, after "operator": its signs are no brackets. 0: none does.
std::size_t operator_signs(std::string_view name, std::size_t at) {
  constexpr std::string_view kOperators[] = {
      "<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
      "++",  "--",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "->", "<",  ">"};
  for (const std::string_view each : kOperators)
    if (name.substr(at).starts_with(each)) return each.size();
  return 0;
}

// Calls visit(i, is_sign) for the characters of a C++ name that stand outside of <> and (), and for "(" and "<" that open one;
// `is_sign`: of an operator's name. False ends it.
template <typename Visit>
void for_each_outside(std::string_view name, Visit visit) {
  constexpr std::string_view kOperator = "operator";
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); i++) {
    if (name[i] == 'o' && name.substr(i).starts_with(kOperator)) {
      const std::size_t end = i + kOperator.size() + operator_signs(name, i + kOperator.size());
      for (; i < end; i++)
        if (depth == 0 && !visit(i, true)) return;
      i--;
      continue;
    }
    const char c = name[i];
    if (c == '<' || c == '(' || c == '{') {
      if (depth == 0 && !visit(i, false)) return;
      depth++;
    } else if (c == '>' || c == ')' || c == '}') {
      depth = std::max(depth - 1, 0);
    } else if (depth == 0 && !visit(i, false)) {
      return;
    }
  }
}

// "void ns::f<int>(long) const" → "ns::f<int>".
std::string_view qualified_name(std::string_view function) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::size_t end = function.size(), begin = 0;
  for_each_outside(function, [&](std::size_t i, bool is_sign) {
    if (is_sign) return true;
    if (function[i] == '(' && i > 0 && !function.substr(i).starts_with(kAnonymous)) {
      end = i;
      return false;
    }
    const bool of_operator = function.substr(0, i).ends_with("operator");  // operator new, operator bool
    if (function[i] == ' ' && !of_operator && !function.substr(i).starts_with(" <")) begin = i + 1;
    return true;
  });
  return begin < end ? function.substr(begin, end - begin) : function;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "f" of "ns::Class<int>::f".
std::string_view last_name(std::string_view name) {
  std::size_t begin = 0;
  for_each_outside(name, [&](std::size_t i, bool is_sign) {
    if (!is_sign && name[i] == ':') begin = i + 1;
    return true;
  });
  return name.substr(begin);
}

bool allocates(std::string_view name) {
  const std::string_view last = last_name(name);
  if (last.starts_with("operator new") || last.starts_with("operator delete")) return true;
  if (is_one_of(last, {"malloc", "calloc", "realloc", "allocate", "reallocate", "AllocateHeap", "ReallocateHeap"})) return true;
  while (name.starts_with("_")) name.remove_prefix(1);
  for (const std::string_view prefix : {"x", "g_", "je_", "mi_", "tc_", "libc_", "PyMem_", "PyObject_", "rust_", "rdl_"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    for (const std::string_view call : {"malloc", "calloc", "realloc", "alloc", "memdup", "strdup", "new", "Malloc", "Calloc",
                                        "Realloc", "RawMalloc", "RawCalloc", "RawRealloc", "memalign"})
      if (rest.starts_with(call)) return true;
  }
  return is_one_of(name, {"reallocarray", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "strdup",
                          "strndup", "asprintf", "vasprintf", "getline", "getdelim"});
}

bool is_of_jdk(std::string_view java_name) {
  for (const std::string_view package : {"java.", "javax.", "jdk.", "sun.", "com.sun."})
    if (java_name.starts_with(package)) return true;
  return false;
}

// The Java frame that native code at `from` works for: the innermost of the program's own, else of the JDK's. nullptr: none.
const FrameReport* java_caller(const std::vector<FrameReport>& frames, std::size_t from) {
  const FrameReport* first = nullptr;
  for (std::size_t i = from; i < frames.size(); i++) {
    if (!frames[i].is_java || frames[i].function.str().find('.') == std::string::npos) continue;  // stubs of the JVM
    if (!is_of_jdk(frames[i].function.str())) return &frames[i];
    if (!first) first = &frames[i];
  }
  return first;
}

bool is_standard(std::string_view name) {
  while (name.starts_with("<")) name.remove_prefix(1);  // Rust: <alloc::vec::Vec<T> as …>::push
  for (const std::string_view scope : {"std::", "__gnu_cxx::", "alloc::", "core::", "hashbrown::", "__rustc::"})
    if (name.starts_with(scope)) return true;
  return false;
}

}  // namespace

bool is_plumbing(const FrameReport& frame) {
  const std::string_view module = last_part(frame.module.str());
  for (const std::string_view library : {"libc.so", "libc-", "libstdc++.so", "libc++.so", "ld-linux", "libheapspy", "libgcc_s"})
    if (module.starts_with(library)) return true;
  if (frame.function.empty()) return false;
  const std::string_view name = qualified_name(frame.function.str());
  return allocates(name) || is_standard(name) ||
         is_one_of(name, {"_start", "__libc_start_main", "start_thread", "clone", "clone3"});
}

std::size_t telling_frame(const std::vector<FrameReport>& frames) {
  const auto found = std::find_if_not(frames.begin(), frames.end(), is_plumbing);
  if (found == frames.end()) return 0;
  const auto nameless_here = [&](const FrameReport& frame) {
    return frame.function.empty() && !frame.is_java && frame.module.str() == found->module.str();
  };
  const auto after =
      std::find_if_not(found, frames.end() - found > kNameless ? found + kNameless : frames.end(), nameless_here);
  const bool is_named = after != frames.end() && !after->function.empty() && !after->is_java &&
                        after->module.str() == found->module.str() && !is_plumbing(*after);
  return static_cast<std::size_t>((is_named ? after : found) - frames.begin());
}

std::string short_function(const std::string& function) {
  const std::string_view name = qualified_name(function);
  std::string text;
  std::size_t from = 0;  // what is not in `text` yet
  const auto take_until = [&](std::size_t at) {
    const std::string_view arguments = name.substr(from, at - from);
    text += from > 0 && arguments.size() > kLongArguments && arguments.starts_with('<') && arguments.ends_with('>') ? "<…>"
                                                                                                                    : arguments;
    from = at;
  };
  bool within = false;
  for_each_outside(name, [&](std::size_t i, bool is_sign) {
    if (within) take_until(i);
    within = !is_sign && name[i] == '<';
    if (within) {
      text += name.substr(from, i - from);
      from = i;
    } else {
      text += name.substr(from, i + 1 - from);
      from = i + 1;
    }
    return true;
  });
  take_until(name.size());
  for (std::size_t at; (at = text.find("[abi:")) != std::string::npos && text.find(']', at) != std::string::npos;)
    text.erase(at, text.find(']', at) + 1 - at);
  return text;
}

std::string short_path(const std::string& path) {
  std::size_t begin = path.size();
  if (path.size() <= kShortPath) return path;
  for (std::size_t parts = 0; parts < kPathParts && begin > 0; parts++) {
    begin = path.rfind('/', begin - 1);
    if (begin == std::string::npos || begin == 0) return path;
  }
  return path.substr(begin + 1);
}

std::string place_text(const FrameReport& frame) {
  if (!frame.file.empty())
    return frame.line ? fmt::format("{}:{}", short_path(frame.file), *frame.line) : short_path(frame.file);
  if (frame.module.empty()) return fmt::format("0x{:x}", frame.offset);
  return fmt::format("{}+0x{:x}", last_part(frame.module.str()), frame.offset);
}

std::string frame_text(const FrameReport& frame) {
  if (frame.is_java)
    return printable(short_function(frame.function)) + (frame.line ? fmt::format(":{}", *frame.line) : std::string());
  const std::string place = place_text(frame);
  return printable(frame.function.empty() ? place : short_function(frame.function) + " at " + place);
}

std::string site_text(const std::vector<FrameReport>& frames) {
  if (frames.empty()) return "(call stack not known)";
  const std::size_t at = telling_frame(frames);
  const FrameReport& frame = frames[at];
  const FrameReport* java = java_caller(frames, at);
  if (frame.is_java || !java) return frame_text(frame);
  const std::string name = frame.function.empty() ? place_text(frame)
                           : frame.module.empty()
                               ? short_function(frame.function)
                               : fmt::format("{} ({})", short_function(frame.function), last_part(frame.module.str()));
  return fmt::format("{} for {}", printable(name), frame_text(*java));
}

std::string where_text(const std::vector<FrameReport>& frames) {
  if (frames.empty()) return "";
  const std::size_t at = telling_frame(frames);
  const FrameReport& frame = frames[at];
  if (frame.is_java) return frame_text(frame);
  if (java_caller(frames, at)) return site_text(frames);
  return frame.function.empty() ? place_text(frame) : short_function(frame.function) + " (" + place_text(frame) + ")";
}

}  // namespace heapspy::report
