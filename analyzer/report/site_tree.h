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

// By live bytes at the moment, or, where nothing is live, by bytes allocated. Of the sites in the report: it must hold all.
// Recursion is kept as it is.
TreeNode site_tree(const Report&, TreeOrder);

}  // namespace heapspy::report
