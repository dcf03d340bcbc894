#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {

Lines mark_lines(const Report& report, const Screen& screen, std::size_t top) {
  if (report.marks.empty() || top == 0) return {};
  Lines lines = {heading("Marks", screen)};
  for (std::size_t i = 0; i < report.marks.size() && i < top; i++) {
    const MarkReport& mark = report.marks[i];
    const ThreadReport* thread = mark.thread ? thread_with_id(report, *mark.thread) : nullptr;
    const std::string text = mark.kind == "mark" ? printable(mark.text) : "recording " + mark.kind;
    lines.push_back(
        fit(fmt::format("  {:.3f} s  {}{}", mark.time_s, text, thread != nullptr ? "  (" + printable(thread->name) + ")" : ""),
            kWidth));
  }
  const std::uint64_t more = report.marks.size() - (lines.size() - 1) + report.marks_left_out;
  if (more > 0) lines.push_back(fmt::format("  and {} more", findings::count_text(more)));
  return lines;
}

}  // namespace heapspy::report
