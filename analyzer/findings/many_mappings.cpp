// Thousands of mappings, executable ones above all: page tables that RSS does not show, and scans (smaps, debuggers,
// profilers) that take long.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

// The largest programs seen (browsers, JVMs with hundreds of libraries) stay below a third of these; the kernel's default
// limit is 65 530 mappings in all (vm.max_map_count).
constexpr std::uint64_t kMappings = 10'000, kExecutable = 1'000;

}  // namespace

std::optional<Finding> many_mappings(const Facts& facts) {
  if (!facts.mappings || !facts.executable_mappings) return std::nullopt;
  if (*facts.mappings < kMappings && *facts.executable_mappings < kExecutable) return std::nullopt;

  Finding finding;
  finding.kind = "many_mappings";
  finding.title = "Many mappings";
  finding.severity = Severity::medium;
  finding.bytes = facts.page_table_bytes.value_or(0);
  finding.text = fmt::format("{} mappings, {} of them executable (the kernel's default limit is 65 530)",
                             count_text(*facts.mappings), count_text(*facts.executable_mappings));
  if (facts.page_table_bytes)
    finding.text += fmt::format("; their page tables take {}, not counted in RSS", bytes_text(*facts.page_table_bytes));
  finding.text += ". Not malloc's; every scan of the address space pays for each of them.";
  if (facts.running) finding.to_try = fmt::format("heapspy maps {}", facts.pid);
  finding.evidence = {{"mappings", *facts.mappings}, {"executable_mappings", *facts.executable_mappings}};
  if (facts.page_table_bytes) finding.evidence.emplace_back("page_table_bytes", *facts.page_table_bytes);
  return finding;
}

}  // namespace heapspy::findings
