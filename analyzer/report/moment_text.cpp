#include "analyzer/report/moment_text.h"

#include "analyzer/findings/quantity.h"

namespace heapspy::report {
namespace {

std::string time_text(const MomentReport& moment) { return moment.time_s ? findings::seconds_text(*moment.time_s) : "?"; }

}  // namespace

std::string moment_text(const MomentReport& moment) {
  if (moment.why == kEachPeak) return "at the RSS peak of each process";
  if (moment.why == kEachEnd) return "at the end of each process";
  if (moment.why == "peak") return "at its peak (" + time_text(moment) + ")";
  if (moment.why == "end") return (moment.last_snapshot ? "at the last snapshot (" : "at the end (") + time_text(moment) + ")";
  return "at " + time_text(moment);
}

std::string moment_of_rss_text(const MomentReport& moment) {
  return moment.why == "peak" ? "at the RSS peak (" + time_text(moment) + ")" : moment_text(moment);
}

bool at_is_end(const Report& report) { return report.at.time_s && report.at.time_s == report.end_at.time_s; }

std::string moments_text(const Report& report) {
  if (report.at.why != "peak" || !at_is_end(report)) return moment_text(report.at);
  return std::string("at its peak and ") + (report.end_at.last_snapshot ? "last snapshot" : "the end") + " (" +
         time_text(report.at) + ")";
}

}  // namespace heapspy::report
