// Who pins: the pinned bytes of a moment by block, size, age and site.
#pragma once
#include "analyzer/model/moment.h"
#include "analyzer/report/report.h"
#include "analyzer/report/site_book.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

// Sites that it names, to be wanted of the book.
std::vector<trace::SiteId> sites_of_pins(const model::Moment&);
// `book` may be nullptr: then no site is known.
PinsReport pins_report(const model::Moment&, const trace::Reader&, const SiteBook* book);

}  // namespace heapspy::report
