#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/html_sections.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {
namespace {

std::uint64_t part_bytes(const RssReport& rss, const std::string& name) {
  for (const PartReport& part : rss.parts)
    if (part.name == name) return part.bytes;
  return 0;
}

std::string figure_text(const findings::Figure& figure) {
  struct Write {
    std::string operator()(std::uint64_t value) const { return findings::count_text(value); }
    std::string operator()(double value) const { return fmt::format("{:.4g}", value); }
    std::string operator()(bool value) const { return value ? "yes" : "no"; }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<std::string>& values) const { return fmt::format("{}", fmt::join(values, ", ")); }
  };
  return std::visit(Write(), figure);
}

void add_evidence(Html& html, const findings::Finding& finding) {
  if (finding.evidence.empty()) return;
  html.open("details");
  html.element("summary", "Evidence", {{"class", "soft"}});
  html.open("dl");
  for (const auto& [name, figure] : finding.evidence) {
    html.element("dt", name);
    html.open("dd");
    if (const auto* exact = std::get_if<std::uint64_t>(&figure); exact && name.ends_with("bytes"))
      html.bytes(*exact);
    else
      html.text(figure_text(figure));
    html.close();
  }
  html.close();
  html.close();
}

}  // namespace

void write_ledger(Html& html, const Report& report) {
  const RssReport& rss = report.rss;
  const RssReport& end = report.rss_at_end;
  write_heading(html, "RSS");
  if (rss.total_bytes) {
    const bool both = shows_both_moments(report);
    std::vector<std::string> headings = {"", moments_text(report), ""};
    if (both) headings.insert(headings.end(), {moment_text(report.end_at), ""});
    headings.emplace_back("");
    HtmlTable table(html, headings, {headings.size() - 1});
    table.row().text("total").bytes(rss.total_bytes).text("");
    if (both) table.bytes(end.total_bytes).text("");
    table.text("");
    std::vector<std::string> names;
    std::uint64_t most = 0;
    for (const RssReport* each : {&rss, &end})
      for (const PartReport& part : each->parts) {
        if (std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
        if (each == &rss) most = std::max(most, part.bytes);
      }
    for (const std::string& name : names) {
      const std::uint64_t here = part_bytes(rss, name), there = both ? part_bytes(end, name) : 0;
      if (here == 0 && there == 0) continue;
      table.row().text(name).bytes(here).text(findings::percent_text(here, *rss.total_bytes));
      if (both) table.bytes(there).text(findings::percent_text(there, *end.total_bytes));
      table.bar(most ? static_cast<double>(here) / static_cast<double>(most) : 0);
    }
  }
  for (const std::string& line : ledger_notes(report)) html.element("p", line, {{"class", "soft"}});
}

void write_findings(Html& html, const std::string& heading, const std::vector<findings::Finding>& findings) {
  write_heading(html, heading);
  for (const findings::Finding& finding : findings) {
    html.open("section", {{"class", findings::severity_word(finding.severity)}});
    html.open("h3");
    html.text(finding_headline(finding));
    html.close();
    html.element("p", finding.text);
    html.open("dl");
    const auto add = [&](const char* label, const std::string& text) {
      html.element("dt", label);
      html.element("dd", text);
    };
    if (finding.fix)
      add("Fix", *finding.fix + (finding.fix_saves_bytes
                                     ? fmt::format(" returns {} (predicted)", findings::bytes_text(*finding.fix_saves_bytes))
                                     : ""));
    if (finding.cost) add("Cost", *finding.cost);
    if (finding.to_try) add("Try", *finding.to_try);
    html.close();
    add_evidence(html, finding);
    html.close();
  }
}

}  // namespace heapspy::report
