// What the verdicts about Java's memory outside of its heap say alike.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/facts.h"

namespace heapspy::findings {

// Of live bytes, those that can be in RAM: no more than all live blocks have there.
std::uint64_t resident_bytes(const Facts&, std::uint64_t live_bytes);
// "400 live blocks (120.0 MiB asked for)".
std::string blocks_text(const JavaUseFacts&);
// Sentences with a blank before them; "": there is nothing to say.
std::string places_text(const JavaUseFacts&);               // whose code asked
std::string ended_text(const Facts&, const JavaUseFacts&);  // who ended such blocks
std::vector<std::pair<std::string, Figure>> evidence_of(const JavaUseFacts&);

}  // namespace heapspy::findings
