// The blocks of a text report, each a few lines. report_text puts them together; `record` uses some of them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/report/merged.h"
#include "analyzer/report/report.h"
#include "analyzer/report/screen.h"
#include "analyzer/report/site_tree.h"

namespace heapspy::report {

using Lines = std::vector<std::string>;

// header_text.cpp
Lines header_lines(const Report&);  // what ran, how long, how it ended, how much was recorded
Lines loss_lines(const Report&);    // what is missing or damaged; none where all is well
Lines order_lines(const Report&);   // that times alone did not give the order; none where they did
std::string allocator_line(const Report&);
std::string facts_text(const Report&);  // "pid 4242 · 14.2 s · ended normally · …"
std::string trace_text(const Report&);  // which trace, and how it was recorded
std::string ended_text(const Report&);  // "ended normally"
Lines next_lines(const Report&);

// ledger_text.cpp
Lines ledger_lines(const Report&, const Screen&);
Lines ledger_notes(const Report&);       // what stands below it, each a paragraph in one line
bool shows_both_moments(const Report&);  // the end beside the moment
bool end_is_unseen(const Report&);       // live memory moved after the last snapshot: where RSS went nobody knows
inline constexpr const char* kNoRss =
    "RSS is not known: the trace holds no snapshot of the process (HEAPSPY_SNAPSHOT=off, or it ended too early).";
// ledger_full_text.cpp
Lines full_ledger_lines(const Report&, const Screen&, std::size_t top);

// findings_text.cpp
Lines findings_lines(const Report&, const Screen&);
Lines no_finding_lines(const Report&);                   // what is said where there is none
std::string finding_headline(const findings::Finding&);  // "Retained, 374.9 MiB"

// sites_text.cpp
Lines site_lines(const Report&, const Screen&, std::size_t top, bool in_full);
Lines symbol_lines(const Report&);  // where symbols are wanting, and what would help; none where they are not
Lines module_table_lines(const Report&, const Screen&, std::size_t top);
// site_tree.cpp
Lines tree_lines(const Report&, const Screen&, TreeOrder, std::size_t top);

// threads_text.cpp
Lines thread_lines(const Report&, const Screen&, std::size_t top);
// java_text.cpp; none where there is no JVM
Lines java_lines(const Report&, const Screen&, std::size_t top);
Lines java_thread_lines(const Report&, const Screen&, std::size_t top);  // groups, daemons and former names
// arenas_text.cpp
bool arenas_are_of_the_end(const Report&);  // not of its moment: where more is free then
Lines arena_lines(const Report&, const Screen&, std::size_t top, bool with_threads);
// sizes_text.cpp; without colour, since they are put beside each other
Lines size_lines(const Report&, const Screen&, std::size_t top);
Lines lifetime_lines(const Report&, std::size_t top);
// time_text.cpp
Lines time_lines(const Report&, const Screen&, std::size_t top);
// marks_text.cpp
Lines mark_lines(const Report&, const Screen&, std::size_t top);

// merged_text.cpp, of several processes
std::vector<std::string> merged_head_texts(const MergedReport&);  // how many, how long, what is missing: each a paragraph
std::uint64_t weight_of(const ProcessRow&);                       // what processes are ranked by

// A figure that may be unknown: "?" then.
std::string bytes_or_unknown(const Bytes&);
// "≈ 512.0 MiB ± 3.1 MiB", "≈ 1 204 ± 35".
std::string bytes_estimate(std::uint64_t bytes, double error);
std::string count_estimate(std::uint64_t count, double error);
// Bold, where colour may be used.
std::string heading(const std::string& line, const Screen&);

}  // namespace heapspy::report
