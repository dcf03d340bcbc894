#include <fmt/format.h>

#include <iterator>
#include <map>

#include "analyzer/exports/exports.h"
#include "analyzer/exports/frame_label.h"

namespace heapspy::exports {

namespace {

// A semicolon parts frames, a line end parts stacks; the number stands after the last blank.
std::string folded_frame(const report::FrameReport& frame) {
  std::string text = function_label(frame);
  for (char& c : text)
    if (c == ';' || static_cast<unsigned char>(c) < ' ') c = ':';
  return text;
}

}  // namespace

std::string folded(const report::Report& report, Value value) {
  std::map<std::string, std::uint64_t> stacks;  // sites that differ only in lines are one here
  for (const report::SiteReport& site : report.sites) {
    const std::uint64_t number = value_of(site, value).value_or(0);
    if (!number) continue;
    std::string stack;
    for (auto frame = site.frames.rbegin(); frame != site.frames.rend(); ++frame)
      stack += (stack.empty() ? "" : ";") + folded_frame(*frame);
    stacks[stack.empty() ? "[unknown]" : stack] += number;
  }
  std::string text;
  for (const auto& [stack, number] : stacks) fmt::format_to(std::back_inserter(text), "{} {}\n", stack, number);
  return text;
}

}  // namespace heapspy::exports
