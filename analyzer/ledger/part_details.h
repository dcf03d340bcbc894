// The named pieces of each part of a ledger.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/ledger/rss_ledger.h"

namespace heapspy::ledger {

class PartDetails {
 public:
  void add(PartKind part, std::string_view name, std::uint64_t bytes);
  // `bytes` of one part are another's after all: taken from the piece of this name.
  void take(PartKind part, std::string_view name, std::uint64_t bytes);
  // The pieces of a part, cut to what the part has: largest first, at most `most` and one for the rest. Empty where there is
  // only one.
  std::vector<Detail> of(PartKind part, std::uint64_t bytes, std::size_t most) const;

 private:
  std::array<std::unordered_map<std::string, std::uint64_t>, kParts> pieces_;
};

}  // namespace heapspy::ledger
