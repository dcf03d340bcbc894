#include "analyzer/report/site_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/site_frames.h"

namespace heapspy::report {
namespace {

constexpr double kShown = 0.01;  // of the whole: branches with less are summed up
constexpr std::size_t kDeepest = 40;

bool by_live_bytes(const Report& report) {
  return std::any_of(report.sites.begin(), report.sites.end(),
                     [](const SiteReport& site) { return site.live_bytes.value_or(0) > 0; });
}

// All calls that one function makes are one branch.
std::string caller_text(FrameReport frame) {
  if (frame.function.empty()) return frame_text(frame);
  frame.line.reset();
  return frame.file.empty() ? printable(short_function(frame.function)) : frame_text(frame);
}

TreeNode& child(TreeNode& parent, const std::string& name) {
  for (TreeNode& each : parent.children)
    if (each.name == name) return each;
  parent.children.push_back({name, 0, {}});
  return parent.children.back();
}

void sort(TreeNode& node) {
  std::stable_sort(node.children.begin(), node.children.end(),
                   [](const TreeNode& a, const TreeNode& b) { return a.bytes > b.bytes; });
  for (TreeNode& each : node.children) sort(each);
}

// A node's only child stands right below it: what branches is what is indented.
void draw(const TreeNode& node, std::uint64_t whole, std::size_t indent, std::size_t depth, Lines& lines) {
  std::uint64_t small = 0;
  std::size_t small_count = 0;
  const auto shown = [&](const TreeNode& each) {
    return static_cast<double>(each.bytes) >= kShown * static_cast<double>(whole);
  };
  const auto branches = std::count_if(node.children.begin(), node.children.end(), shown);
  for (const TreeNode& each : node.children) {
    if (!shown(each) || depth > kDeepest) {
      small += each.bytes;
      small_count++;
      continue;
    }
    lines.push_back(fit(right(findings::bytes_text(each.bytes), 10) + right(findings::percent_text(each.bytes, whole), 7) +
                            "  " + std::string(indent, ' ') + each.name,
                        kWidth));
    draw(each, whole, indent + (branches > 1 ? 2 : 0), depth + 1, lines);
  }
  if (small_count && depth <= kDeepest && branches)
    lines.push_back(right(findings::bytes_text(small), 10) + right(findings::percent_text(small, whole), 7) + "  " +
                    std::string(indent, ' ') + fmt::format("({} smaller)", small_count));
}

}  // namespace

TreeNode site_tree(const Report& report, TreeOrder order) {
  TreeNode root;
  const bool live = by_live_bytes(report);
  for (const SiteReport& site : report.sites) {
    const std::uint64_t bytes = live ? site.live_bytes.value_or(0) : site.bytes;
    if (bytes == 0) continue;
    root.bytes += bytes;
    std::vector<std::string> path;
    for (std::size_t i = telling_frame(site.frames); i < site.frames.size(); i++)
      if (path.empty())
        path.push_back(frame_text(site.frames[i]));
      else if (!is_plumbing(site.frames[i]))
        path.push_back(caller_text(site.frames[i]));
    if (path.empty()) path.emplace_back("(call stack not known)");
    if (order == TreeOrder::down) std::reverse(path.begin(), path.end());
    TreeNode* at = &root;
    for (const std::string& name : path) {
      at = &child(*at, name);
      at->bytes += bytes;
    }
  }
  sort(root);
  return root;
}

Lines tree_lines(const Report& report, const Screen& screen, TreeOrder order) {
  if (report.sites.empty()) return site_lines(report, screen, 1, true);
  const TreeNode root = site_tree(report, order);
  Lines lines = {
      heading(fmt::format("{} {}, {}", by_live_bytes(report) ? "Live" : "Allocated",
                          by_live_bytes(report) ? moment_of_rss_text(report.at) : "in the whole run",
                          order == TreeOrder::down ? "from main() down to who allocates" : "from who allocates up to callers"),
              screen)};
  if (!report.site_scope.empty()) lines.push_back("Only " + printable(report.site_scope) + ".");
  draw(root, root.bytes, 0, 0, lines);
  return lines;
}

}  // namespace heapspy::report
