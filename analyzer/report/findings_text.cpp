#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kIndent = 5;
constexpr std::size_t kLongest = 600;  // columns of one finding's text: names in it may be long

const char* colour_of(findings::Severity severity) {
  return severity == findings::Severity::high     ? "\x1b[31;1m"
         : severity == findings::Severity::medium ? "\x1b[33;1m"
                                                  : "\x1b[1m";
}

void add_labelled(Lines& lines, const char* label, const std::string& text) {
  const std::string indent(kIndent, ' ');
  const std::vector<std::string> wrapped = wrap(fit(printable(text), kLongest), kWidth - kIndent - 6);
  for (std::size_t i = 0; i < wrapped.size(); i++)
    lines.push_back(indent + (i == 0 ? left(label, 6) : std::string(6, ' ')) + wrapped[i]);
}

}  // namespace

std::string finding_headline(const findings::Finding& finding) {
  std::string line = printable(finding.title);
  if (finding.bytes > 0) line += ", " + findings::bytes_text(finding.bytes) + (finding.part_of.empty() ? "" : " of it");
  if (!finding.moment.empty()) line += " " + finding.moment;
  return line;
}

Lines no_finding_lines(const Report& report) {
  if (end_is_unseen(report))
    return {"Nothing stands out at the snapshots; what the process kept after the last one nobody has seen."};
  const auto undivided = [](const PartReport& part) { return part.name == "malloc" && part.bytes > 0; };
  if (std::any_of(report.rss.parts.begin(), report.rss.parts.end(), undivided))
    return {"Nothing stands out; what malloc's memory is made of this trace does not tell (heapspy inspect PID does)."};
  if (report.rss.total_bytes || report.rss_at_end.total_bytes)
    return {"Nothing stands out: no part that some setting, trim or fix could return is worth a change."};
  return {"Nothing stands out in the calls; without a snapshot nothing is known about RSS."};
}

Lines findings_lines(const Report& report, const Screen& screen) {
  Lines lines = {heading("What this means", screen)};
  if (report.findings.empty()) {
    for (const std::string& line : no_finding_lines(report)) lines.push_back("  " + line);
    return lines;
  }
  std::size_t number = 1;
  for (const findings::Finding& finding : report.findings) {
    const std::string headline = finding_headline(finding) + ".";
    const std::vector<std::string> wrapped = wrap(headline + " " + fit(printable(finding.text), kLongest), kWidth - kIndent);
    for (std::size_t i = 0; i < wrapped.size(); i++) {
      std::string line = (i == 0 ? fmt::format("  {}  ", number) : std::string(kIndent, ' ')) + wrapped[i];
      if (i == 0 && screen.colour && wrapped[0].starts_with(headline))
        line = fmt::format("  {}  {}{}\x1b[0m{}", number, colour_of(finding.severity), headline,
                           wrapped[0].substr(headline.size()));
      lines.push_back(std::move(line));
    }
    if (finding.fix)
      add_labelled(lines, "Fix:",
                   *finding.fix + (finding.fix_saves_bytes ? fmt::format("   returns {} (predicted)",
                                                                         findings::bytes_text(*finding.fix_saves_bytes))
                                                           : ""));
    if (finding.cost) add_labelled(lines, "Cost:", *finding.cost);
    if (finding.to_try) add_labelled(lines, "Try:", *finding.to_try);
    number++;
  }
  return lines;
}

}  // namespace heapspy::report
