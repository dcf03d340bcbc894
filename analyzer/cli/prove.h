// `report --prove`: replays the settings that a report's findings suggest, and puts what they save and cost beside what was
// predicted.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"
#include "analyzer/trial/replay.h"

namespace heapspy::cli {

// A setting that findings suggest.
struct Suggestion {
  std::string setting;                           // as in LIST
  std::vector<std::string> kinds;                // of the findings
  std::optional<std::uint64_t> predicted_bytes;  // that a finding says it saves
};
// In the order of the findings, at most three.
std::vector<Suggestion> suggestions_of(const std::vector<findings::Finding>&);

struct Proof {
  std::vector<Suggestion> suggestions;
  trial::Replay replay;  // settings[0] is default, then one per suggestion
};
// Throws Failure where the trace cannot be replayed.
Proof prove(const std::string& trace, const std::vector<findings::Finding>&);

std::vector<std::string> proof_text(const Proof&);
nlohmann::ordered_json proof_json(const Proof&);

}  // namespace heapspy::cli
