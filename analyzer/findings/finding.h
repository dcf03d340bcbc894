// A verdict about where memory is: what, how many bytes, from which figures, and what can be done about it.
// Plain data; report_text and report_json show the same fields.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace heapspy::findings {

// By share of the process's RSS at that moment (severity_of): high from a quarter, medium from a twentieth.
enum class Severity { low, medium, high };

using Figure = std::variant<std::uint64_t, double, bool, std::string, std::vector<std::string>>;

struct Finding {
  std::string kind;   // stable word, as in JSON: "plug", "retained" …
  std::string title;  // the kind as a heading: "Plugged heap"
  Severity severity = Severity::low;
  std::uint64_t bytes = 0;  // that this verdict explains; resident, but for `leak` (live) and `many_mappings` (page tables)
  // Kinds that count the same bytes under another aspect: this one is "of these". Empty: no other counts them.
  std::vector<std::string> part_of;
  std::string moment;      // when: "at the end (1.8 s)"; "" where it is about the whole run
  bool whole_run = false;  // set by verdicts that look at more than one moment
  std::string text;        // sentences; names in it are data and may hold any bytes
  // The exact setting or command, only where its saving was predicted from the model or measured by a trial.
  std::optional<std::string> fix;
  std::optional<std::uint64_t> fix_saves_bytes;
  std::optional<std::string> cost;  // of the fix
  // What to try or measure where no saving can be promised; a command where there is one.
  std::optional<std::string> to_try;
  std::vector<std::pair<std::string, Figure>> evidence;  // the figures that the verdict rests on, in order
};

inline const char* severity_word(Severity severity) {
  switch (severity) {
    case Severity::high: return "high";
    case Severity::medium: return "medium";
    default: return "low";
  }
}

}  // namespace heapspy::findings
