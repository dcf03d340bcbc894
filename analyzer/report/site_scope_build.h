// Which blocks count for the sites of a report: from what was asked for, by name and seconds, to threads and ticks.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>

#include "analyzer/model/site_scope.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

// Which blocks count for sites. `thread`: a name ("*" stands for anything) or the kernel's id; "" all.
struct SiteScope {
  std::string thread;
  std::optional<double> from_s, to_s;  // when they were allocated
  std::uint64_t least_bytes = 0, most_bytes = ~std::uint64_t{0};
};

// No thread has the name asked for: what() is one line.
struct NoSuchThread : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws NoSuchThread.
model::SiteFilter site_filter(const trace::Reader&, const SiteScope&);
// Of one process of several, which began `start_s` after the first of them: times count from there, and a thread that it does
// not have is none of its blocks.
model::SiteFilter site_filter_in_family(const trace::Reader&, const SiteScope&, double start_s);
// "blocks of thread main of 1.0 KiB and more, allocated from 1.0 s to 2.0 s"; "" all.
std::string site_scope_text(const SiteScope&);

}  // namespace heapspy::report
