// A report's sites in the formats of viewers that people already use. The report must hold every site (SiteOptions::all).
#pragma once
#include <optional>
#include <string>

#include "analyzer/report/report.h"

namespace heapspy::exports {

// What a number of a profile is; the words are pprof's.
enum class Value { alloc_space, alloc_objects, inuse_space, inuse_objects, pinned_space };
inline constexpr Value kValues[] = {Value::alloc_objects, Value::alloc_space, Value::inuse_objects, Value::inuse_space,
                                    Value::pinned_space};
const char* name_of(Value);
const char* unit_of(Value);  // "bytes", "count"
// nullopt: not known for this site.
std::optional<std::uint64_t> value_of(const report::SiteReport&, Value);

// One line a site, outermost frame first: what flamegraph.pl, inferno and speedscope read.
std::string folded(const report::Report&, Value);
// perftools.profiles.Profile, gzip'ed: `go tool pprof`, Pyroscope, speedscope. All values that are known.
std::string pprof(const report::Report&);
// What Valgrind's dh_view.html reads: DHAT file format version 2. Time in microseconds.
std::string dhat(const report::Report&);
// A trace for ui.perfetto.dev: counters over time and a heap profile at the end.
std::string perfetto(const report::Report&);
// One row a site (RFC 4180), its frames as "function (file:line)" separated by " <- ", innermost first.
std::string csv(const report::Report&);

}  // namespace heapspy::exports
