#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/html_sections.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/site_frames.h"
#include "analyzer/report/site_tree.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kSites = 100;    // rows
constexpr std::size_t kBranches = 30;  // of each node
constexpr double kSmallest = 0.002;    // share of the whole: branches with less are summed up
constexpr double kOpen = 0.5;          // branches with so much are unfolded

void write_stack(Html& html, const SiteReport& site) {
  html.open("details");
  html.element("summary", site_label(site));
  html.open("ol");
  for (const FrameReport& frame : site.frames) html.element("li", frame_text(frame) + (frame.inlined ? " (inlined)" : ""));
  if (site.stack_end == "depth") html.element("li", "… deeper than HEAPSPY_DEPTH");
  if (site.stack_end == "no rule" || site.stack_end == "bad stack" || site.stack_end == "unknown")
    html.element("li", "… what called this is not known");
  html.close();
  html.close();
}

class TreeDrawing {
 public:
  TreeDrawing(Html& html, const TreeNode& root) : html_(html), whole_(root.bytes) {}

  void draw(const TreeNode& parent) {
    std::uint64_t left_out_bytes = 0;
    std::size_t shown = 0, left_out = 0;
    for (const TreeNode& child : parent.children) {
      if (shown < kBranches && is_shown(child)) {
        shown++;
        draw_branch(child);
      } else {
        left_out++;
        left_out_bytes += child.bytes;
      }
    }
    if (left_out && shown) row("div", {fmt::format("({} smaller)", left_out), left_out_bytes, {}});
  }

 private:
  bool is_shown(const TreeNode& node) const {
    return static_cast<double>(node.bytes) >= kSmallest * static_cast<double>(whole_);
  }

  // What follows without a branch stands right below, to be unfolded at once.
  void draw_branch(const TreeNode& first) {
    if (first.children.empty() || !is_shown(first.children[0])) return row("div", first);
    const bool open = static_cast<double>(first.bytes) >= kOpen * static_cast<double>(whole_);
    if (open)
      html_.open("details", {{"open", ""}});
    else
      html_.open("details");
    row("summary", first);
    const TreeNode* at = &first;
    while (at->children.size() == 1 && !at->children[0].children.empty()) {
      at = &at->children[0];
      row("div", *at);
    }
    draw(*at);
    html_.close();
  }

  void row(const char* tag, const TreeNode& node) {
    html_.open(tag);
    html_.bytes(node.bytes);
    html_.element("span", findings::percent_text(node.bytes, whole_), {{"class", "soft"}});
    html_.text(node.name);
    html_.close();
  }

  Html& html_;
  std::uint64_t whole_;
};

}  // namespace

void write_sites(Html& html, const std::string& title, const std::vector<SiteReport>& sites, std::size_t left_out,
                 const Report* report) {
  const std::size_t shown = std::min(kSites, sites.size());
  write_heading(html, fmt::format("{} ({} of {})", title, shown, findings::count_text(sites.size() + left_out)));
  HtmlTable table(html,
                  {"", "live", "blocks", "peak", "allocated", "calls", "temporary", "pinned", report ? "threads" : "processes"},
                  report ? std::vector<std::size_t>{8} : std::vector<std::size_t>{});
  for (std::size_t i = 0; i < shown; i++) {
    const SiteReport& site = sites[i];
    table.row().open_cell();
    write_stack(html, site);
    table.close_cell();
    table.bytes(site.live_bytes).count(site.live_blocks).bytes(site.peak_bytes).bytes(site.bytes);
    table.count(site.allocations + site.reallocations).text(temporary_label(site)).bytes(site.pinned_bytes);
    if (report)
      table.text(threads_label(*report, site));
    else
      table.count(site.processes);
  }
}

void write_sites(Html& html, const Report& report) {
  if (report.sites.empty()) {
    write_heading(html, "Sites");
    return write_paragraph(html, site_lines(report, {}, 1, true));
  }
  write_sites(html, "Sites " + moment_of_rss_text(report.at), report.sites, report.sites_left_out, &report);
  if (!report.site_scope.empty()) html.element("p", "Only " + report.site_scope + ".");
}

void write_tree(Html& html, const std::vector<SiteReport>& sites, TreeOrder order, const std::string& title) {
  const TreeNode root = site_tree(sites, order);
  if (root.children.empty()) return;
  write_heading(html, title);
  html.open("div", {{"class", "tree"}});
  TreeDrawing(html, root).draw(root);
  html.close();
}

void write_modules(Html& html, const Report& report) {
  const std::vector<std::string> lines = symbol_lines(report);
  if (lines.empty()) return;
  write_heading(html, lines[0]);
  for (std::size_t i = 1; i < lines.size(); i++) html.element("p", lines[i]);
}

}  // namespace heapspy::report
