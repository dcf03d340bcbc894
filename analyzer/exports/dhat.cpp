// The format: Valgrind's dhat/dh_main.c ("File format", dhatFileVersion 2) and what dhat/dh_view.js checks.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "analyzer/exports/exports.h"
#include "analyzer/exports/frame_label.h"

namespace heapspy::exports {

namespace {

// With the address, as Valgrind does it: the viewer refuses two call stacks that read the same.
std::string frame_text(const report::FrameReport& frame) { return fmt::format("{:#x}: {}", frame.offset, place_label(frame)); }

std::uint64_t microseconds(double seconds) { return seconds > 0 ? static_cast<std::uint64_t>(std::llround(seconds * 1e6)) : 0; }

}  // namespace

std::string dhat(const report::Report& report) {
  using nlohmann::ordered_json;
  std::string command;
  for (const std::string& argument : report.process.command) command += (command.empty() ? "" : " ") + argument;

  ordered_json frames = ordered_json::array({"[root]"});
  std::unordered_map<std::string, std::size_t> numbers;
  const auto number_of = [&](const std::string& label) {
    const auto [at, added] = numbers.try_emplace(label, frames.size());
    if (added) frames.push_back(label);
    return at->second;
  };

  ordered_json points = ordered_json::array();
  for (const report::SiteReport& site : report.sites) {
    ordered_json stack = ordered_json::array();
    for (const report::FrameReport& frame : site.frames) stack.push_back(number_of(frame_text(frame)));
    if (stack.empty()) stack.push_back(number_of("[unknown]"));
    points.push_back({{"tb", site.bytes},
                      {"tbk", site.allocations},
                      {"tl", microseconds(site.lifetimes_s)},
                      {"mb", site.most_bytes},
                      {"mbk", site.most_blocks},
                      {"gb", site.peak_bytes.value_or(0)},
                      {"gbk", site.peak_blocks.value_or(0)},
                      {"eb", site.end_live_bytes.value_or(0)},
                      {"ebk", site.end_live_blocks.value_or(0)},
                      {"fs", stack}});
  }
  const ordered_json file = {{"dhatFileVersion", 2},
                             {"mode", "heap"},
                             {"verb", "Allocated"},
                             {"bklt", true},    // lifetimes are known
                             {"bkacc", false},  // accesses are not
                             {"tu", "µs"},
                             {"Mtu", "s"},
                             {"tuth", 10},  // shorter than that is short-lived
                             {"cmd", command},
                             {"pid", report.process.pid},
                             {"tg", microseconds(report.totals.peak_time_s.value_or(0))},
                             {"te", microseconds(report.process.duration_s.value_or(0))},
                             {"pps", points},
                             {"ftbl", frames}};
  return file.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace heapspy::exports
