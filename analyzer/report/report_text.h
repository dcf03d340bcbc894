// A report for people: the conclusion first, then a page of tables. At most kWidth columns; drawings on a terminal only.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/report.h"
#include "analyzer/report/screen.h"
#include "analyzer/report/site_tree.h"

namespace heapspy::report {

enum class By { everything, process, thread, size, arena, site, module };  // process: of merged_text

struct TextOptions {
  Screen screen;
  By by = By::everything;           // else: the head of the report and that one table, in full
  std::optional<std::size_t> top;   // rows per table; by default 8, with `by` all (sites: 10)
  std::optional<TreeOrder> tree{};  // instead: the call tree
  bool ledger = false;              // instead: the ledger in full, and over time
};

// Lines without newlines.
std::vector<std::string> report_text(const Report&, const TextOptions&);

}  // namespace heapspy::report
