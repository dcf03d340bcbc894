// The call stacks of a report as one tree of bytes: from main() down to who allocates, or from there up to who called it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

enum class TreeOrder { down, up };

struct TreeNode {
  std::string name;                // printable; "" the root
  std::uint64_t bytes = 0;         // of all stacks that pass here
  std::vector<TreeNode> children;  // most bytes first
};

// By live bytes at the moment, or, where nothing is live, by bytes allocated. Recursion is kept as it is. Time grows with the
// frames of all sites.
TreeNode site_tree(const std::vector<SiteReport>&, TreeOrder);
bool by_live_bytes(const std::vector<SiteReport>&);
// "Live at the end (2.0 s), from main() down to who allocates"
std::string tree_title(const Report&, TreeOrder);

}  // namespace heapspy::report
