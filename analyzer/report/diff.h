// Two reports, figure by figure. Made for before and after a change of a setting: what differs in the settings comes
// first, then where the difference in memory lies.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

enum class Unit { bytes, count, seconds };

// One figure of both reports. Exact for whole numbers up to 2^53. nullopt: not known there.
struct Compared {
  std::vector<std::string> path;  // as in JSON: {"rss", "parts", "thread stacks"}
  Unit unit = Unit::count;
  std::optional<double> before, after;

  std::optional<double> change() const;  // after - before
  std::string path_text() const;         // "rss.parts.thread stacks"
};

// Threads whose names differ in digits only, taken together.
struct ComparedThreads {
  std::string name;  // digits as "#": "pool-#-thread-#"
  std::vector<Compared> figures;
};

// A call stack as it is spelled: functions, or module and offset; lines may differ. Sites that are spelled alike taken
// together.
struct ComparedSites {
  std::vector<FrameReport> frames;  // innermost first; of the report where it is
  std::vector<Compared> figures;
};

struct ComparedSetting {
  std::string name;
  std::optional<std::string> before, after;
};

struct Diff {
  Report before, after;
  std::vector<ComparedSetting> settings;  // only those that differ
  std::vector<Compared> figures;          // totals, arenas, rss; in the order of JSON
  std::vector<ComparedThreads> threads;   // largest change of bytes first
  std::vector<ComparedSites> sites;       // largest change first, of live bytes at the moment or else of bytes allocated

  const Compared* figure(std::string_view path_text) const;  // nullptr: there is none
};

Diff make_diff(Report before, Report after);

}  // namespace heapspy::report
