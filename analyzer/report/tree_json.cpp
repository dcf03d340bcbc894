#include "analyzer/report/json_values.h"
#include "analyzer/report/report_json.h"

namespace heapspy::report {
namespace {

constexpr double kSmallest = 0.001;  // share of the whole: branches with less are summed up

Json node_json(const TreeNode& node, std::uint64_t whole) {
  Json children = Json::array();
  std::uint64_t smaller = 0;
  for (const TreeNode& child : node.children)
    if (static_cast<double>(child.bytes) >= kSmallest * static_cast<double>(whole))
      children.push_back(node_json(child, whole));
    else
      smaller += child.bytes;
  return {{"name", node.name}, {"bytes", node.bytes}, {"children", std::move(children)}, {"smaller_bytes", smaller}};
}

}  // namespace

Json tree_json(const std::vector<SiteReport>& sites, TreeOrder order) {
  const TreeNode root = site_tree(sites, order);
  return {{"order", order == TreeOrder::down ? "down" : "up"},
          {"figure", by_live_bytes(sites) ? "live_bytes" : "bytes"},
          {"root", node_json(root, root.bytes)}};
}

}  // namespace heapspy::report
