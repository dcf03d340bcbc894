// What recording itself took of the process: memory, dirty pages, time.
#pragma once
#include "analyzer/report/report.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

// Time is what the recorder timed itself (FileHeader::recorder_ticks: to begin, to append, to register threads, to take
// snapshots), and what the hooks took of the program's calls, predicted: events × what a hook costs in bench/README.md. Memory
// is that of the moment's ledger.
RecorderReport recorder_share(const trace::Reader&, std::uint64_t events, const RssReport& at_the_moment);

}  // namespace heapspy::report
