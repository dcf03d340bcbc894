#include "analyzer/trial/compare.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace heapspy::trial {
namespace {

constexpr double kWorthSaying = 0.05;            // of the peak: what repeats of one setting commonly differ by …
constexpr std::uint64_t kWorthBytes = 1u << 20;  // … and by how much programs of a few MiB do

template <typename Number>
Number median(std::vector<Number> values) {
  if (values.empty()) return Number{};
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : static_cast<Number>((values[middle - 1] + values[middle]) / 2);
}

double change(std::uint64_t from, std::uint64_t to) {
  return from == 0 ? 0 : (static_cast<double>(to) - static_cast<double>(from)) / static_cast<double>(from);
}
double change(double from, double to) { return from > 0 ? (to - from) / from : 0; }

std::string percent(double share) {
  const double rounded = std::round(share * 100);
  return rounded == 0 ? "±0 %" : fmt::format("{}{:.0f} %", rounded < 0 ? "−" : "+", std::abs(rounded));
}

std::string mib(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

bool worth_saying(std::uint64_t from, std::uint64_t to) {
  const std::uint64_t difference = from > to ? from - to : to - from;
  return difference > kWorthBytes && static_cast<double>(difference) > kWorthSaying * static_cast<double>(from);
}

bool comparable(const SettingResult& result, int exit_status) {
  return !result.tries.empty() && result.in_effect && result.medians.peak_rss_bytes &&
         result.medians.exit_status == exit_status;
}

std::string named(const SettingResult& result) {
  const std::string hand = by_hand(result.recipe);
  return hand.empty() ? result.setting.text : fmt::format("{} ({})", result.setting.text, hand);
}

std::string end_words(const SettingResult& base, const SettingResult& best) {
  if (!base.medians.end_rss_bytes || !best.medians.end_rss_bytes) return "";
  const std::uint64_t from = *base.medians.end_rss_bytes, to = *best.medians.end_rss_bytes;
  return fmt::format("RSS at the end from {} to {} ({})", mib(from), mib(to), percent(change(from, to)));
}

// Lock waits are worth a word where they are a visible part of the time, in either run.
std::string cost_words(const SettingResult& base, const SettingResult& best) {
  std::string text = fmt::format("wall time {}, CPU time {}", percent(change(base.medians.wall_s, best.medians.wall_s)),
                                 percent(change(base.medians.cpu_s, best.medians.cpu_s)));
  if (base.medians.lock_wait_s && best.medians.lock_wait_s &&
      std::max(*base.medians.lock_wait_s, *best.medians.lock_wait_s) > kWorthSaying * base.medians.wall_s)
    text += fmt::format(", lock waits from {:.1f} s to {:.1f} s over all threads", *base.medians.lock_wait_s,
                        *best.medians.lock_wait_s);
  return text;
}

process::EnvironmentChanges environment_of(const SettingResult& each, const std::string& preload) {
  process::EnvironmentChanges environment;
  const auto set = [&](const std::string& name, const std::optional<std::string>& value) {
    std::erase_if(environment, [&](const auto& change_of) { return change_of.first == name; });
    environment.emplace_back(name, value);
  };
  set("LD_PRELOAD", preload.empty() ? std::nullopt : std::optional(preload));
  for (const auto& [name, value] : each.recipe.environment) set(name, value);
  return environment;
}

// The recorder first, then what the setting preloads.
void add_recorder(process::EnvironmentChanges& environment, const ComparePlan& plan, const SettingResult& each) {
  for (auto& [name, value] : environment)
    if (name == "LD_PRELOAD") value = plan.recorder + (value ? ":" + *value : "");
  std::string name = each.setting.text;
  std::replace(name.begin(), name.end(), '%', '_');
  std::replace(name.begin(), name.end(), '/', '_');
  environment.emplace_back("HEAPSPY_OUT", fmt::format("{}/{}.%n.%p.%t.hspy", plan.record_folder, name));
}

void rewind_input() {
  // A file as stdin is read from its start by each run; pipes and terminals cannot be.
  ::lseek(STDIN_FILENO, 0, SEEK_SET);
}

}  // namespace

Medians medians_of(const std::vector<Try>& tries) {
  Medians medians;
  std::vector<std::uint64_t> peaks, ends, faults, switches;
  std::vector<double> walls, cpus, waits;
  for (const Try& each : tries) {
    if (medians.exit_status == 0) medians.exit_status = each.run.exit_status;
    if (each.run.peak_rss_bytes) peaks.push_back(*each.run.peak_rss_bytes);
    if (each.run.end_rss_bytes) ends.push_back(*each.run.end_rss_bytes);
    faults.push_back(each.run.minor_faults);
    switches.push_back(each.run.voluntary_switches);
    walls.push_back(each.run.wall_s);
    cpus.push_back(each.run.cpu_s);
    if (each.run.lock_wait_s) waits.push_back(*each.run.lock_wait_s);
  }
  if (!peaks.empty()) medians.peak_rss_bytes = median(peaks);
  if (!ends.empty()) medians.end_rss_bytes = median(ends);
  medians.minor_faults = median(faults);
  medians.voluntary_switches = median(switches);
  medians.wall_s = median(walls);
  medians.cpu_s = median(cpus);
  if (!waits.empty()) medians.lock_wait_s = median(waits);
  return medians;
}

std::string advise(const std::vector<SettingResult>& settings) {
  const auto ran = [](const SettingResult& each) { return !each.tries.empty() && each.medians.peak_rss_bytes; };
  auto base = std::find_if(settings.begin(), settings.end(),
                           [&](const auto& each) { return each.setting.kind == SettingKind::base && ran(each); });
  if (base == settings.end()) base = std::find_if(settings.begin(), settings.end(), ran);
  if (base == settings.end()) return "no run could be measured";

  const SettingResult *lowest = &*base, *highest = &*base, *lowest_end = &*base;
  std::size_t compared = 0;
  for (const SettingResult& each : settings) {
    if (&each == &*base || !comparable(each, base->medians.exit_status)) continue;
    compared++;
    if (*each.medians.peak_rss_bytes < *lowest->medians.peak_rss_bytes) lowest = &each;
    if (*each.medians.peak_rss_bytes > *highest->medians.peak_rss_bytes) highest = &each;
    if (each.medians.end_rss_bytes.value_or(UINT64_MAX) < lowest_end->medians.end_rss_bytes.value_or(0)) lowest_end = &each;
  }
  if (compared == 0) return fmt::format("nothing to compare {} with", base->setting.text);

  const std::uint64_t peak = *base->medians.peak_rss_bytes, low = *lowest->medians.peak_rss_bytes,
                      high = *highest->medians.peak_rss_bytes;
  if (low < peak && worth_saying(peak, low)) {
    const std::string end = end_words(*base, *lowest);
    return fmt::format("{} lowers the peak from {} to {} ({}){}{}; {}", named(*lowest), mib(peak), mib(low),
                       percent(change(peak, low)), end.empty() ? "" : " and ", end, cost_words(*base, *lowest));
  }
  const char* limit = static_cast<double>(peak) * kWorthSaying > kWorthBytes ? "5 %" : "1 MiB";
  std::string text = high > peak && worth_saying(peak, high)
                         ? fmt::format("no setting lowers the peak of {} by more than {}; {} raises it to {} ({})", mib(peak),
                                       limit, highest->setting.text, mib(high), percent(change(peak, high)))
                         : fmt::format("no setting changes the peak of {} by more than {}", mib(peak), limit);
  if (lowest_end != &*base && worth_saying(*base->medians.end_rss_bytes, *lowest_end->medians.end_rss_bytes))
    text +=
        fmt::format("; {} lowers {}; {}", named(*lowest_end), end_words(*base, *lowest_end), cost_words(*base, *lowest_end));
  return text;
}

std::string without_recorder(const std::string& preload) {
  std::string kept;
  for (std::size_t at = 0; at < preload.size();) {
    const std::size_t end = std::min(preload.find_first_of(": ", at), preload.size());
    const std::string entry = preload.substr(at, end - at);
    if (!entry.empty() && entry.substr(entry.rfind('/') + 1) != "libheapspy.so") kept += (kept.empty() ? "" : ":") + entry;
    at = end + 1;
  }
  return kept;
}

Comparison compare(const ComparePlan& plan) {
  Comparison comparison{plan.command, {}, ""};
  Surroundings surroundings = real_surroundings(plan.command.at(0));
  const std::string preload = without_recorder(surroundings.environment("LD_PRELOAD"));
  surroundings.environment = [preload, real = surroundings.environment](const char* name) {
    return std::string(name) == "LD_PRELOAD" ? preload : real(name);
  };
  std::size_t available = 0;
  for (const Setting& setting : plan.settings) {
    comparison.settings.push_back({setting, recipe_for(setting, surroundings), {}, {}, true});
    available += comparison.settings.back().recipe.unavailable.empty();
  }

  const bool record = !plan.record_folder.empty();
  std::size_t run = 0;
  for (unsigned repeat = 1; repeat <= plan.repeat + record; repeat++)
    for (SettingResult& each : comparison.settings) {
      if (!each.recipe.unavailable.empty()) continue;
      const bool recorded = repeat > plan.repeat;
      if (plan.progress) plan.progress(++run, available * (plan.repeat + record), each.setting, repeat);
      RunPlan run_plan{{plan.command, environment_of(each, preload), plan.output}, each.recipe.library, plan.companion};
      if (recorded) add_recorder(run_plan.child.environment, plan, each);
      rewind_input();
      const MeasuredRun last = run_measured(run_plan);
      if (recorded) continue;
      each.tries.push_back({repeat, last});
      if (!each.recipe.library.empty() && last.peak_rss_bytes && !last.library_seen) each.in_effect = false;
    }
  for (SettingResult& each : comparison.settings) each.medians = medians_of(each.tries);
  comparison.advice = advise(comparison.settings);
  return comparison;
}

}  // namespace heapspy::trial
