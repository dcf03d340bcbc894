// Finds the traces that a recorded program left, from the template that HEAPSPY_OUT gave them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace heapspy::cli {

inline constexpr const char* kDefaultTemplate = "heapspy.%n.%p.%t.hspy";

struct FoundTrace {
  std::string path;
  std::uint32_t pid = 0, ppid = 0;
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t size_bytes = 0;  // as the file says, holes included
};

// The template as the recorder will see it, made absolute so that programs that start in other folders leave their
// traces in the same place: relative ones are put below `folder`, a folder gets the default name appended.
std::string absolute_template(const std::string& out, const std::string& folder);

// A glob(7) pattern that every name made from the template matches; %p becomes `pid`, or * when it is 0.
std::string glob_of(const std::string& absolute_template, std::uint32_t pid);

// Traces that match the template and began at or after `since_ns` (CLOCK_REALTIME), by start time. Reads the first page
// of each file; what is not a trace is left out.
std::vector<FoundTrace> find_traces(const std::string& absolute_template, std::uint32_t pid, std::uint64_t since_ns);

}  // namespace heapspy::cli
