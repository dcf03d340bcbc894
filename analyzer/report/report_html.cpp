#include "analyzer/report/report_html.h"

#include "analyzer/report/html_sections.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {

namespace {

// Columns that the text has aligned stay so.
void write_trials(Html& html, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  write_heading(html, lines[0]);
  if (lines.size() == 1) return;
  html.open("pre");
  for (std::size_t i = 1; i < lines.size(); i++) {
    html.text(lines[i]);
    html.empty("br");
  }
  html.close();
}

}  // namespace

std::string report_html(const Report& report, const std::vector<std::string>& trials) {
  Html html;
  const std::string command =
      report.process.command.empty() ? printable(report.process.exe) : command_text(report.process.command);
  begin_page(html, "heapspy: " + command);
  html.element("h1", command);
  html.element("p", facts_text(report));
  for (const Lines& lines : {loss_lines(report), order_lines(report), Lines{allocator_line(report)}})
    write_paragraph(html, lines);
  write_ledger(html, report);
  write_findings(html, "What this means", report.findings);
  if (report.findings.empty()) write_paragraph(html, no_finding_lines(report));
  write_trials(html, trials);
  write_timeline(html, report);
  write_sites(html, report);
  for (const TreeOrder order : {TreeOrder::down, TreeOrder::up})
    write_tree(html, report.sites, order, tree_title(report, order));
  write_java(html, report);
  write_threads(html, report);
  write_arenas(html, report);
  write_sizes(html, report.sizes);
  write_lifetimes(html, report.lifetimes);
  write_marks(html, report);
  write_modules(html, report);
  html.element("p", trace_text(report), {{"class", "soft"}});
  end_page(html);
  return html.written();
}

}  // namespace heapspy::report
