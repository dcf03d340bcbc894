// What a row of a report is called, in text and in HTML alike. All are printable.
#pragma once
#include <string>

#include "analyzer/report/report.h"

namespace heapspy::report {

std::string thread_label(const ThreadReport&);                 // its name, or "(tid 4242)"
std::string thread_label(const Report&, std::uint32_t id);     // "thread 7" where it has no name
std::string group_label(const ThreadReport&);                  // Java's: "main", "?"; "" of a thread that is none of Java's
std::string daemon_label(const ThreadReport&);                 // "yes", "no"; "" likewise
std::string names_label(const ThreadReport&);                  // where it was renamed: "pool-1 (0.2 s), worker (3.1 s)"
std::string role_label(const RoleReport&);                     // "garbage collection"
std::string caller_label(const CallerReport&);                 // the library's file name
std::string size_label(const SizeReport&);                     // "<64 KiB"
std::string lifetime_label(const LifetimeReport&);             // "<10 us", ">100000 s"
std::string plug_label(const Report&, const ArenaReport&);     // "48 B, 3.1 s, main"; "" where there is none
std::string threads_label(const Report&, const ArenaReport&);  // those that allocated most first, a few
std::string threads_label(const Report&, const SiteReport&);   // each name once, a few
std::string site_label(const SiteReport&);                     // the frame that tells most

// As percent of its calls; "?" where it is not known.
std::string temporary_label(const SiteReport&);

}  // namespace heapspy::report
