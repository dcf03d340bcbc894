#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/inspection_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/site_frames.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

using findings::bytes_text;
using findings::count_text;

constexpr std::size_t kSitesShown = 8;

Lines size_lines(const Inspection& inspection, const Screen& screen) {
  if (inspection.pinned_by_size.empty()) return {};
  Table table({"Pinned by size of block", "blocks", "in use", "pinned", "a trim returns without them"});
  for (const heap::PinsOfSize& row : inspection.pinned_by_size)
    table.add({row.from ? fmt::format("  {} to {}", bytes_text(row.from), bytes_text(row.to))
                        : fmt::format("  up to {}", bytes_text(row.to)),
               count_text(row.blocks), bytes_text(row.bytes), bytes_text(row.pinned_bytes),
               bytes_text(row.returned_without_bytes)});
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

Lines site_lines(const Inspection& inspection, const Screen& screen) {
  const InspectedTrace& trace = *inspection.trace;
  Lines lines;
  if (!trace.sites.empty()) {
    Table table({"By site", "blocks", "live", "pinned", "a trim returns without them"});
    for (std::size_t i = 0; i < std::min(trace.sites.size(), kSitesShown); i++) {
      const InspectedSite& site = trace.sites[i];
      table.add({"  " + site_text(site.frames), count_text(site.blocks), bytes_text(site.live_bytes),
                 bytes_text(site.pinned_bytes), site.returned_without_bytes ? bytes_text(*site.returned_without_bytes) : ""});
    }
    lines = table.lines(kWidth);
    lines[0] = heading(lines[0], screen);
  }
  for (const InspectedArena& arena : inspection.arenas) {
    if (!arena.plug) continue;
    const auto known = trace.plugs.find(arena.plug->address);
    if (known == trace.plugs.end() || known->second.site == 0) continue;
    const auto frames = trace.plug_frames.find(known->second.site);
    if (frames == trace.plug_frames.end()) continue;
    lines.push_back(fit(fmt::format("  plug of {}: {}{} from {}", arena_label(arena), bytes_text(known->second.size),
                                    known->second.age_s ? ", " + findings::seconds_text(*known->second.age_s) + " old," : "",
                                    site_text(frames->second)),
                        kWidth));
  }
  lines.push_back(fit(fmt::format("  {} of {} blocks in use are in the trace {}", count_text(trace.known_blocks),
                                  count_text(trace.known_blocks + trace.unknown_blocks), printable(trace.path)),
                      kWidth));
  return lines;
}

}  // namespace

Lines pin_lines(const Inspection& inspection, const Screen& screen) {
  Lines lines = size_lines(inspection, screen);
  if (!inspection.trace) return lines;
  if (!lines.empty()) lines.emplace_back();
  for (std::string& line : site_lines(inspection, screen)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace heapspy::report
