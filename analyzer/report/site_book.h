// The stacks of a trace with their functions, files and lines: joins the trace's stack table and the symbols.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/report/report.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/stack_table.h"

namespace heapspy::report {

// What is wanted is said first, then looked up in one go.
class SiteBook {
 public:
  // The reader must outlive this.
  SiteBook(const trace::Reader&, const symbols::SearchPaths&);

  void want(trace::SiteId);
  // `progress` (may be empty): the path of the module that is read now.
  void look_up(const std::function<void(const std::string&)>& progress);

  // Innermost first; functions that were inlined are frames of their own. Empty: the site is none.
  std::vector<FrameReport> frames(trace::SiteId) const;
  std::string end_word(trace::SiteId) const;  // why there are no more: "whole", "depth", "no rule", "bad stack", "unknown"
  // The frame that tells most, for a sentence: "fill (src/shop.cpp:20)"; "" where nothing is known.
  std::string where(trace::SiteId) const;
  std::vector<ModuleReport> modules() const;  // of which anything was wanted, by path

 private:
  static std::vector<symbols::Module> modules_of(const trace::Reader&);
  symbols::Place place_of(const trace::StackFrame&) const;

  const trace::Reader& reader_;
  std::vector<symbols::Module> modules_;  // as StackTable::images()
  symbols::Symbolizer symbolizer_;
};

}  // namespace heapspy::report
