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

  static std::vector<symbols::Module> modules_of(const trace::Reader&);  // as StackTable::images()

 private:
  symbols::Place place_of(const trace::StackFrame&) const;

  const trace::Reader& reader_;
  std::vector<symbols::Module> modules_;  // as StackTable::images()
  symbols::Symbolizer symbolizer_;
  std::unordered_map<symbols::Place, std::vector<FrameReport>, symbols::PlaceHash> frames_;  // of all that was wanted
};

// What is known of a place that was looked up: at least the module and where in it.
std::vector<FrameReport> frames_at(const symbols::Place&, const std::vector<symbols::Module>&, const symbols::Symbolizer&);
// Of those of which anything was wanted, by path.
std::vector<ModuleReport> module_reports(const std::vector<symbols::Module>&, const symbols::Symbolizer&);
// /tmp/perf-PID.map of this process, or where `search` has it.
std::string perf_map_of(const trace::Reader&, const symbols::SearchPaths&);
const char* end_word(trace::StackEnd);
FrameReport java_frame(std::string method);  // "shop.Cart.add(int):12"

}  // namespace heapspy::report
