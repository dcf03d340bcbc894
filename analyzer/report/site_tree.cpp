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

constexpr double kShown = 0.01;           // of the whole: branches with less are summed up
constexpr std::size_t kLongestChain = 6;  // nodes that do not branch, shown one below the other
constexpr std::size_t kIndent = 2;

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

bool is_shown(const TreeNode& node, std::uint64_t whole) {
  return static_cast<double>(node.bytes) >= kShown * static_cast<double>(whole);
}

const TreeNode* only_child(const TreeNode& node, std::uint64_t whole) {
  const bool one = !node.children.empty() && is_shown(node.children[0], whole) &&
                   (node.children.size() == 1 || !is_shown(node.children[1], whole));
  return one ? &node.children[0] : nullptr;
}

// How many nodes follow below `node`, one below the other, until one branches or ends.
std::size_t chain_length(const TreeNode& node, std::uint64_t whole) {
  std::size_t length = 0;
  for (const TreeNode* at = only_child(node, whole); at; at = only_child(*at, whole)) length++;
  return length;
}

struct Drawing {
  std::uint64_t whole = 0;
  std::size_t branches = 0;  // shown of each node
  Lines lines;

  void add(std::uint64_t bytes, std::size_t indent, const std::string& text) {
    lines.push_back(fit(right(findings::bytes_text(bytes), 10) + right(findings::percent_text(bytes, whole), 7) + "  " +
                            std::string(indent, ' ') + text,
                        kWidth));
  }

  // A node's only child stands right below it: what branches is what is indented. Of long rows the middle is left out.
  void draw(const TreeNode& node, std::size_t indent) {
    const TreeNode* at = &node;
    const std::size_t length = chain_length(node, whole);
    for (std::size_t i = 0; i < length; i++) {
      at = only_child(*at, whole);
      if (length <= kLongestChain || i < kLongestChain / 2 || i + 1 >= length)
        add(at->bytes, indent, at->name);
      else if (i == kLongestChain / 2)
        lines.push_back(std::string(19, ' ') + std::string(indent, ' ') + fmt::format("… {} more", length - 1 - i));
    }
    std::size_t shown = 0, left_out = 0;
    std::uint64_t bytes_left_out = 0;
    for (const TreeNode& each : at->children) {
      if (shown < branches && is_shown(each, whole)) {
        add(each.bytes, indent + kIndent, each.name);
        draw(each, indent + kIndent);
        shown++;
      } else {
        bytes_left_out += each.bytes;
        left_out++;
      }
    }
    if (left_out && shown) add(bytes_left_out, indent + kIndent, fmt::format("({} smaller)", left_out));
  }
};

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

Lines tree_lines(const Report& report, const Screen& screen, TreeOrder order, std::size_t top) {
  if (report.sites.empty()) return site_lines(report, screen, 1, true);
  const TreeNode root = site_tree(report, order);
  Lines lines = {
      heading(fmt::format("{} {}, {}", by_live_bytes(report) ? "Live" : "Allocated",
                          by_live_bytes(report) ? moment_of_rss_text(report.at) : "in the whole run",
                          order == TreeOrder::down ? "from main() down to who allocates" : "from who allocates up to callers"),
              screen)};
  if (!report.site_scope.empty()) lines.push_back("Only " + printable(report.site_scope) + ".");
  Drawing drawing;
  drawing.whole = root.bytes;
  drawing.branches = top;
  drawing.add(root.bytes, 0, "everything");
  drawing.draw(root, 0);
  lines.insert(lines.end(), drawing.lines.begin(), drawing.lines.end());
  return lines;
}

}  // namespace heapspy::report
