#include <fmt/format.h>

#include <iterator>

#include "analyzer/exports/exports.h"
#include "analyzer/exports/frame_label.h"

namespace heapspy::exports {

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

// An empty cell: not known.
std::string cell(const std::optional<std::uint64_t>& number) { return number ? fmt::format("{}", *number) : std::string(); }

}  // namespace

std::string csv(const report::Report& report) {
  std::string text =
      "site,allocations,bytes,reallocations,live_blocks,live_bytes,peak_bytes,temporary,pinned_bytes,threads,stack\r\n";
  for (const report::SiteReport& site : report.sites) {
    std::string threads, stack;
    for (const std::uint32_t id : site.threads) threads += (threads.empty() ? "" : " ") + fmt::format("{}", id);
    for (const report::FrameReport& frame : site.frames) stack += (stack.empty() ? "" : " <- ") + place_label(frame);
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{}\r\n", site.id, site.allocations, site.bytes,
                   site.reallocations, cell(site.live_blocks), cell(site.live_bytes), cell(site.peak_bytes),
                   cell(site.temporary), cell(site.pinned_bytes), threads, quoted(stack));
  }
  return text;
}

}  // namespace heapspy::exports
