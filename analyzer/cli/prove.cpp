#include "analyzer/cli/prove.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "analyzer/cli/command.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/recorder_library.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/process/child_process.h"
#include "analyzer/report/printable.h"

namespace heapspy::cli {

namespace {

using findings::bytes_text;
using findings::count_text;
using nlohmann::ordered_json;
using trial::Replayed;

constexpr std::size_t kMostSuggestions = 3;

// Settings that a text names: as a list for --with, as an environment variable, as a library.
std::vector<std::string> settings_in(const std::string& text) {
  std::vector<std::string> found;
  const auto each_match = [&](const char* pattern, const auto& take) {
    const std::regex expression(pattern);
    for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) take((*at)[1].str());
  };
  each_match("MALLOC_ARENA_MAX=([0-9]+)", [&](const std::string& n) { found.push_back("arena_max=" + n); });
  each_match("MALLOC_TRIM_THRESHOLD_=([0-9]+)",
             [&](const std::string& n) { found.push_back(n == "131072" ? "trim_threshold=128KiB" : "trim_threshold=" + n); });
  each_match("lib(jemalloc|tcmalloc|mimalloc)", [&](const std::string& name) { found.push_back(name); });
  each_match("--with ([^ ]+)", [&](const std::string& list) {
    try {
      for (const trial::Setting& each : trial::parse_settings(list)) found.push_back(each.text);
    } catch (const trial::BadSetting&) {
    }
  });
  return found;
}

double share(double from, double to) { return from > 0 ? (to - from) / from * 100 : 0; }

std::string saving(std::uint64_t from, std::uint64_t to) {
  constexpr double kNothing = 0.5;  // percent
  if (std::abs(share(static_cast<double>(from), static_cast<double>(to))) < kNothing) return "nothing";
  const bool less = to <= from;
  return fmt::format("{}{} ({}{:.0f} %)", less ? "−" : "+", bytes_text(less ? from - to : to - from), less ? "−" : "+",
                     std::abs(share(static_cast<double>(from), static_cast<double>(to))));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& each : words) text += (text.empty() ? "" : ", ") + each;
  return text;
}

}  // namespace

std::vector<Suggestion> suggestions_of(const std::vector<findings::Finding>& all) {
  std::vector<Suggestion> result;
  for (const findings::Finding& finding : all) {
    for (const bool is_fix : {true, false})
      for (const std::string& setting : settings_in((is_fix ? finding.fix : finding.to_try).value_or(""))) {
        if (setting == "default") continue;
        auto at = std::find_if(result.begin(), result.end(), [&](const Suggestion& each) { return each.setting == setting; });
        if (at == result.end()) {
          if (result.size() == kMostSuggestions) continue;
          at = result.insert(result.end(), {setting, {}, std::nullopt});
        }
        if (std::find(at->kinds.begin(), at->kinds.end(), finding.kind) == at->kinds.end()) at->kinds.push_back(finding.kind);
        if (is_fix && !at->predicted_bytes) at->predicted_bytes = finding.fix_saves_bytes;
      }
  }
  return result;
}

Proof prove(const std::string& path, const std::vector<findings::Finding>& all) {
  Proof proof;
  proof.suggestions = suggestions_of(all);
  if (proof.suggestions.empty()) return proof;
  const trace::Reader reader(path);
  if (reader.header().mode != format::Mode::full)
    throw Failure(ExitStatus::unreadable, fmt::format("--prove: {} does not hold every call; replay needs a trace of mode full",
                                                      report::printable(path)));
  trial::ReplayPlan plan;
  plan.replayer = find_replayer();
  plan.settings = trial::parse_settings("default");
  for (const Suggestion& each : proof.suggestions) plan.settings.push_back(trial::parse_settings(each.setting)[0]);
  plan.preparing = reading_progress(path);
  try {
    proof.replay = trial::replay(reader, plan);
  } catch (const trial::OperationsNotWritten& why) {
    throw Failure(ExitStatus::unreadable, fmt::format("--prove: {}", why.what()));
  } catch (const process::StartError& why) {
    throw Failure(ExitStatus::unreadable, fmt::format("--prove: {}", why.what()));
  }
  return proof;
}

std::vector<std::string> proof_text(const Proof& proof) {
  std::vector<std::string> lines = {""};
  if (proof.suggestions.empty()) {
    lines.emplace_back("Proved by replay: nothing, for no finding suggests a setting.");
    return lines;
  }
  const trial::ReplayedSetting& base = proof.replay.settings[0];
  const Replayed* from = base.middle();
  if (!from) {
    lines.push_back(fmt::format("Proved by replay: nothing; {}", report::printable(base.problem)));
    return lines;
  }
  lines.push_back(fmt::format("Proved by replay (default: the heap's peak {}, end {})", bytes_text(from->peak_heap_bytes),
                              bytes_text(from->end_heap_bytes)));
  for (std::size_t i = 0; i < proof.suggestions.size(); i++) {
    const Suggestion& suggestion = proof.suggestions[i];
    const trial::ReplayedSetting& each = proof.replay.settings[i + 1];
    const Replayed* run = each.middle();
    if (!run) {
      lines.push_back(fmt::format("  {:<22} {}", suggestion.setting,
                                  each.recipe.unavailable.empty() ? report::printable(each.problem) : each.recipe.unavailable));
      continue;
    }
    lines.push_back(fmt::format("  {:<22} peak {}, end {}{}", suggestion.setting,
                                saving(from->peak_heap_bytes, run->peak_heap_bytes),
                                saving(from->end_heap_bytes, run->end_heap_bytes),
                                suggestion.predicted_bytes ? "; predicted −" + bytes_text(*suggestion.predicted_bytes) : ""));
    std::string cost =
        fmt::format("  {:<22} CPU time of the calls {:+.0f} %", "", share(base.cost()->cpu_s, each.cost()->cpu_s));
    if (base.cost()->lock_waits && each.cost()->lock_waits)
      cost +=
          fmt::format(", lock waits from {} to {}", count_text(*base.cost()->lock_waits), count_text(*each.cost()->lock_waits));
    lines.push_back(fmt::format("{}; for {}", cost, joined(suggestion.kinds)));
  }
  return lines;
}

ordered_json proof_json(const Proof& proof) {
  ordered_json proofs = ordered_json::array();
  if (proof.replay.settings.empty()) return proofs;
  const trial::ReplayedSetting& base = proof.replay.settings[0];
  const Replayed* from = base.middle();
  for (std::size_t i = 0; from && i < proof.suggestions.size(); i++) {
    const Suggestion& suggestion = proof.suggestions[i];
    const trial::ReplayedSetting& each = proof.replay.settings[i + 1];
    const Replayed* run = each.middle();
    ordered_json one = {{"setting", suggestion.setting}, {"findings", suggestion.kinds}};
    one["predicted_saving_bytes"] = suggestion.predicted_bytes ? ordered_json(*suggestion.predicted_bytes) : ordered_json();
    const auto less = [](std::uint64_t was, std::uint64_t is) { return static_cast<std::int64_t>(was - is); };
    one["peak_saving_bytes"] = run ? ordered_json(less(from->peak_heap_bytes, run->peak_heap_bytes)) : ordered_json();
    one["end_saving_bytes"] = run ? ordered_json(less(from->end_heap_bytes, run->end_heap_bytes)) : ordered_json();
    one["cpu_s"] = run ? ordered_json(each.cost()->cpu_s) : ordered_json();
    one["default_cpu_s"] = base.cost()->cpu_s;
    const auto waits = [](const Replayed* cost) {
      return cost && cost->lock_waits ? ordered_json(*cost->lock_waits) : ordered_json();
    };
    one["lock_waits"] = run ? waits(each.cost()) : ordered_json();
    one["default_lock_waits"] = waits(base.cost());
    one["unavailable"] = each.recipe.unavailable.empty() ? ordered_json() : ordered_json(each.recipe.unavailable);
    proofs.push_back(std::move(one));
  }
  return proofs;
}

}  // namespace heapspy::cli
