#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analyzer/trial/replay.h"

namespace heapspy::trial {

namespace {

constexpr double kWorthSaying = 0.1;             // what a prediction is commonly off by
constexpr std::uint64_t kWorthBytes = 1u << 20;  // of programs of a few MiB
constexpr double kCostlyCpu = 1.2;               // CPU times of replays differ by chance, too
constexpr double kCostlyWaits = 2;

std::string mib(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string percent(double from, double to) {
  if (!(from > 0)) return "";
  const double change = std::round((to - from) / from * 100);
  if (change == 0) return " (±0 %)";
  return fmt::format(" ({}{:.0f} %)", change < 0 ? "−" : "+", std::abs(change));
}

bool worth_saying(std::uint64_t from, std::uint64_t to) {
  return to < from && from - to > kWorthBytes && static_cast<double>(from - to) > kWorthSaying * static_cast<double>(from);
}

std::string named(const ReplayedSetting& each) {
  const std::string hand = by_hand(each.recipe);
  return hand.empty() ? each.setting.text : fmt::format("{} ({})", each.setting.text, hand);
}

std::string change(const char* of, std::uint64_t from, std::uint64_t to) {
  return fmt::format("the heap's {} from {} to {}{}", of, mib(from), mib(to),
                     percent(static_cast<double>(from), static_cast<double>(to)));
}

std::uint64_t waits(const ReplayedSetting& each) { return each.cost()->lock_waits.value_or(0); }

// Threads that wait for each other more than a little, and pay for it.
bool is_costly(const ReplayedSetting& base, const ReplayedSetting& each) {
  const double cpu = each.cost()->cpu_s, base_cpu = base.cost()->cpu_s, wall = each.cost()->wall_s,
               base_wall = base.cost()->wall_s;
  const double more_waits = static_cast<double>(waits(each)) - kCostlyWaits * static_cast<double>(waits(base));
  // A wait costs two switches, some 5 us: what all of them come to, of the time that the calls take.
  return more_waits * 5e-6 > 0.1 * base_wall && (cpu > kCostlyCpu * base_cpu || wall > kCostlyCpu * base_wall);
}

std::string cost_words(const ReplayedSetting& base, const ReplayedSetting& each) {
  std::string text = fmt::format("CPU time of the calls from {:.2f} to {:.2f} s{}", base.cost()->cpu_s, each.cost()->cpu_s,
                                 percent(base.cost()->cpu_s, each.cost()->cpu_s));
  if (base.cost()->lock_waits && each.cost()->lock_waits)
    text += fmt::format(", lock waits from {} to {}", waits(base), waits(each));
  return text;
}

struct Choice {
  const ReplayedSetting *peak = nullptr, *end = nullptr, *cpu = nullptr, *costly = nullptr;
  std::size_t others = 0;
};

Choice choose(const std::vector<ReplayedSetting>& settings, const ReplayedSetting& base) {
  Choice choice{&base, &base, &base};
  for (const ReplayedSetting& each : settings) {
    if (&each == &base || !each.middle()) continue;
    choice.others++;
    const Replayed& run = *each.middle();
    if (each.cost()->cpu_s < choice.cpu->cost()->cpu_s) choice.cpu = &each;
    if (is_costly(base, each)) {
      const bool lower = worth_saying(base.middle()->peak_heap_bytes, run.peak_heap_bytes);
      if (lower && (!choice.costly || run.peak_heap_bytes < choice.costly->middle()->peak_heap_bytes)) choice.costly = &each;
      continue;
    }
    if (run.peak_heap_bytes < choice.peak->middle()->peak_heap_bytes) choice.peak = &each;
    if (run.end_heap_bytes < choice.end->middle()->end_heap_bytes) choice.end = &each;
  }
  return choice;
}

}  // namespace

std::string advise(const std::vector<ReplayedSetting>& settings) {
  const auto played = [](const ReplayedSetting& each) { return each.middle() != nullptr; };
  auto base = std::find_if(settings.begin(), settings.end(),
                           [&](const auto& each) { return each.setting.kind == SettingKind::base && played(each); });
  if (base == settings.end()) base = std::find_if(settings.begin(), settings.end(), played);
  if (base == settings.end()) return "no setting could be played";
  const Choice choice = choose(settings, *base);
  if (!choice.others) return fmt::format("nothing to compare {} with", base->setting.text);

  const Replayed &from = *base->middle(), &peak = *choice.peak->middle(), &end = *choice.end->middle();
  const bool lower_peak = worth_saying(from.peak_heap_bytes, peak.peak_heap_bytes),
             lower_end = worth_saying(from.end_heap_bytes, end.end_heap_bytes);
  std::string text;
  if (lower_peak) {
    text =
        fmt::format("{} lowers {} and {}; {}", named(*choice.peak), change("peak", from.peak_heap_bytes, peak.peak_heap_bytes),
                    change("end", from.end_heap_bytes, peak.end_heap_bytes), cost_words(*base, *choice.peak));
  } else {
    text = fmt::format("no setting {}lowers the heap's peak of {} by more than {:.0f} %",
                       choice.costly ? "without a price " : "", mib(from.peak_heap_bytes), kWorthSaying * 100);
    if (lower_end)
      text += fmt::format("; {} lowers {}; {}", named(*choice.end), change("end", from.end_heap_bytes, end.end_heap_bytes),
                          cost_words(*base, *choice.end));
    else if (!choice.costly)
      text += ": no setting helps, the code that holds it does (heapspy report TRACE --by site)";
  }
  if (lower_peak && choice.end != choice.peak && worth_saying(peak.end_heap_bytes, end.end_heap_bytes))
    text += fmt::format("; {} lowers {}", named(*choice.end), change("end", from.end_heap_bytes, end.end_heap_bytes));
  if (choice.costly)
    text += fmt::format("; {} is not advised: {}, but {}", choice.costly->setting.text,
                        change("peak", from.peak_heap_bytes, choice.costly->middle()->peak_heap_bytes),
                        cost_words(*base, *choice.costly));
  if (choice.cpu != choice.peak && choice.cpu->cost()->cpu_s * kCostlyCpu < base->cost()->cpu_s)
    text += fmt::format("; {} takes the least CPU time, {:.2f} s{}", choice.cpu->setting.text, choice.cpu->cost()->cpu_s,
                        percent(base->cost()->cpu_s, choice.cpu->cost()->cpu_s));
  return text;
}

}  // namespace heapspy::trial
