// What a row of a report is called, in text and in HTML alike. All are printable.
#pragma once
#include <string>

#include "analyzer/report/report.h"

namespace heapspy::report {

std::string thread_label(const ThreadReport&);                 // its name, or "(tid 4242)"
std::string thread_label(const Report&, std::uint32_t id);     // "thread 7" where it has no name
std::string size_label(const SizeReport&);                     // "<64 KiB"
std::string lifetime_label(const LifetimeReport&);             // "<10 us", ">100000 s"
std::string plug_label(const Report&, const ArenaReport&);     // "48 B, 3.1 s, main"; "" where there is none
std::string threads_label(const Report&, const ArenaReport&);  // those that allocated most first, a few
std::string threads_label(const Report&, const SiteReport&);   // each name once, a few
std::string site_label(const SiteReport&);                     // the frame that tells most

// As percent of its calls; "?" where it is not known.
std::string temporary_label(const SiteReport&);

}  // namespace heapspy::report
