// The sites of a report: which are shown, and their figures and frames.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <regex>
#include <string>

#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/report/site_book.h"
#include "analyzer/report/suppressions.h"
#include "analyzer/symbols/module_file.h"

namespace heapspy::report {

// Symbols are looked up for the sites that are shown, so a report of few sites is quick.
struct SiteOptions {
  // So many of the sites with the largest figure of each kind: live, peak, allocated, temporary, pinned … 0: no symbols are
  // read, not for findings either.
  std::size_t most = 5;
  bool all = false;  // every site, whatever `most`
  symbols::SearchPaths search;
  std::optional<std::regex> pattern;  // of functions and files, of any frame of a site
  std::string module;                 // part of the file name of a module, of any frame
  Suppressions suppressions;
  std::function<void(const std::string&)> progress;  // the module whose symbols are read
};

// Figures of the whole trace, at the moment and at the end; nullptr: there is none. `extra`: sites that findings will name.
// The book knows the frames of all sites in the report then. Leaves what the mode cannot know unknown.
void add_sites(Report&, SiteBook&, const model::Figures&, const model::Moment* at, const model::Moment* end,
               const std::vector<trace::SiteId>& extra, const SiteOptions&);

// All sites of a trace, by id and without frames.
void add_site_figures(std::vector<SiteReport>&, const model::Figures&, const model::Moment* at, const model::Moment* end);
// Of sites with frames those that the options ask for; marks and sums what is suppressed.
void take_sites(Report&, std::vector<SiteReport>, const SiteOptions&);
// Leaves so many of the sites with the largest figure of each kind.
void keep_largest_sites(Report&, std::size_t most);

}  // namespace heapspy::report
