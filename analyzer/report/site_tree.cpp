#include "analyzer/report/site_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

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

// All calls that one function makes are one branch.
std::string caller_text(FrameReport frame) {
  if (frame.function.empty()) return frame_text(frame);
  frame.line.reset();
  return frame.file.empty() ? printable(short_function(frame.function)) : frame_text(frame);
}

// Grows the tree. Each step is one look into a table, however many children a node has.
class Growth {
 public:
  explicit Growth(TreeOrder order) : order_(order) { nodes_.push_back({}); }

  void add(const SiteReport& site, std::uint64_t bytes) {
    path_.clear();
    for (std::size_t i = telling_frame(site.frames); i < site.frames.size(); i++)
      if (path_.empty())
        path_.push_back(name_of(site.frames[i], false));
      else if (const std::uint32_t name = name_of(site.frames[i], true); name != kPlumbing)
        path_.push_back(name);
    if (path_.empty()) path_.push_back(number_of("(call stack not known)"));
    if (order_ == TreeOrder::down) std::reverse(path_.begin(), path_.end());
    std::uint32_t at = 0;
    nodes_[at].bytes += bytes;
    for (const std::uint32_t name : path_) {
      const auto [known, fresh] = children_.try_emplace(std::uint64_t{at} << 32 | name, nodes_.size());
      if (fresh) nodes_.push_back({name, at, 0});
      at = known->second;
      nodes_[at].bytes += bytes;
    }
  }

  TreeNode tree() const {
    std::vector<TreeNode> nodes(nodes_.size());
    for (std::size_t i = nodes_.size(); i-- > 0;) {  // children come after their parents
      nodes[i].bytes = nodes_[i].bytes;
      if (i == 0) break;
      nodes[i].name = names_[nodes_[i].name];
      nodes[nodes_[i].parent].children.push_back(std::move(nodes[i]));
    }
    sort(nodes[0]);
    return std::move(nodes[0]);
  }

 private:
  static constexpr std::uint32_t kPlumbing = 0xffffffff;
  struct Node {
    std::uint32_t name = 0, parent = 0;
    std::uint64_t bytes = 0;
  };
  struct Spelling {
    SharedText function, file, module;
    std::uint64_t line = 0, offset = 0;
    bool is_caller = false;
    bool operator==(const Spelling&) const = default;
  };
  struct SpellingHash {
    std::size_t operator()(const Spelling& of) const {
      const std::hash<SharedText> hash;
      std::size_t sum = hash(of.function);
      for (const std::size_t part : {hash(of.file), hash(of.module), std::size_t{of.line}, std::size_t{of.offset}})
        sum = (sum ^ part) * 0x9e3779b97f4a7c15;
      return sum + of.is_caller;
    }
  };

  static void sort(TreeNode& node) {
    std::stable_sort(node.children.begin(), node.children.end(), [](const TreeNode& a, const TreeNode& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
    });
    for (TreeNode& each : node.children) sort(each);
  }
  std::uint32_t number_of(std::string name) {
    const auto [known, fresh] = number_of_name_.try_emplace(std::move(name), static_cast<std::uint32_t>(names_.size()));
    if (fresh) names_.push_back(known->first);
    return known->second;
  }
  std::uint32_t name_of(const FrameReport& frame, bool is_caller) {
    const Spelling spelling{frame.function, frame.file, frame.module, frame.line.value_or(0), frame.offset, is_caller};
    if (const auto known = spelled_.find(spelling); known != spelled_.end()) return known->second;
    const std::uint32_t name = !is_caller           ? number_of(frame_text(frame))
                               : is_plumbing(frame) ? kPlumbing
                                                    : number_of(caller_text(frame));
    spelled_.emplace(spelling, name);
    return name;
  }

  TreeOrder order_;
  std::vector<Node> nodes_;                                    // [0] is the root
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // parent << 32 | name
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> number_of_name_;
  std::unordered_map<Spelling, std::uint32_t, SpellingHash> spelled_;
  std::vector<std::uint32_t> path_;
};

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

bool by_live_bytes(const std::vector<SiteReport>& sites) {
  return std::any_of(sites.begin(), sites.end(), [](const SiteReport& site) { return site.live_bytes.value_or(0) > 0; });
}

TreeNode site_tree(const std::vector<SiteReport>& sites, TreeOrder order) {
  const bool live = by_live_bytes(sites);
  Growth growth(order);
  for (const SiteReport& site : sites)
    if (const std::uint64_t bytes = live ? site.live_bytes.value_or(0) : site.bytes) growth.add(site, bytes);
  return growth.tree();
}

std::string tree_title(const Report& report, TreeOrder order) {
  const bool live = by_live_bytes(report.sites);
  return fmt::format("{} {}, {}", live ? "Live" : "Allocated", live ? moment_of_rss_text(report.at) : "in the whole run",
                     order == TreeOrder::down ? "from main() down to who allocates" : "from who allocates up to callers");
}

Lines tree_lines(const Report& report, const Screen& screen, TreeOrder order, std::size_t top) {
  if (report.sites.empty()) return site_lines(report, screen, 1, true);
  const TreeNode root = site_tree(report.sites, order);
  Lines lines = {heading(tree_title(report, order), screen)};
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
