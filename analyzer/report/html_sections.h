// The parts of a page, each a heading and what is below it; nothing where there is nothing to say. report_html and merged_html
// put them together.
#pragma once
#include <string>
#include <vector>

#include "analyzer/report/html.h"
#include "analyzer/report/report.h"
#include "analyzer/report/site_tree.h"

namespace heapspy::report {

// html_page.cpp: what stands around them.
void begin_page(Html&, const std::string& title);
void end_page(Html&);
void write_heading(Html&, const std::string&);
void write_paragraph(Html&, const std::vector<std::string>& lines);  // of the text's report, flowing

// html_ledger.cpp
void write_ledger(Html&, const Report&);
void write_findings(Html&, const std::string& heading, const std::vector<findings::Finding>&);
// html_timeline.cpp
void write_timeline(Html&, const Report&);
void write_marks(Html&, const Report&);
// html_sites.cpp
void write_sites(Html&, const Report&);
// Of several processes, where there is no `report`.
void write_sites(Html&, const std::string& title, const std::vector<SiteReport>&, std::size_t left_out, const Report* report);
void write_tree(Html&, const std::vector<SiteReport>&, TreeOrder, const std::string& title);
void write_modules(Html&, const Report&);
// html_tables.cpp
void write_threads(Html&, const Report&);
void write_java(Html&, const Report&);  // of a JVM: libraries and roles of threads
void write_arenas(Html&, const Report&);
void write_sizes(Html&, const std::vector<SizeReport>&);
void write_lifetimes(Html&, const std::vector<LifetimeReport>&);

}  // namespace heapspy::report
