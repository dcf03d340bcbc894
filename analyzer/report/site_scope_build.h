// Which blocks count for the sites of a report: from what was asked for, by name and seconds, to threads and ticks.
#pragma once
#include <string>

#include "analyzer/model/site_scope.h"
#include "analyzer/report/build.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

// Throws NoSuchThread.
model::SiteFilter site_filter(const trace::Reader&, const BuildOptions::SiteScope&);
// "blocks of thread main of 1.0 KiB and more, allocated from 1.0 s to 2.0 s"; "" all.
std::string site_scope_text(const BuildOptions::SiteScope&);

}  // namespace heapspy::report
