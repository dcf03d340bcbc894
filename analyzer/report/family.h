// Which of several traces are of parents and children, and when the children were forked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trace/reader.h"
#include "heapspy/format/layout.h"

namespace heapspy::report {

// One trace. About 200 bytes: there may be thousands.
struct Member {
  std::string path;
  std::uint32_t pid = 0;
  bool forked = false;
  format::TickKind tick_kind = format::TickKind::tsc4;
  std::uint64_t origin = 0;  // raw clock at tick 0
  std::uint64_t start_realtime_ns = 0, parent_start_realtime_ns = 0, start_monotonic_ns = 0, start_jiffies = 0;
  format::Trigger frozen_by = format::Trigger::none;
  std::vector<std::size_t> children;  // forked from it, by time
  bool has_parent = false;
};

struct Family {
  struct LeftOut {
    std::string path, reason;
  };
  std::vector<Member> members;      // by start
  std::vector<LeftOut> unreadable;  // no traces, or traces that cannot be opened
  std::vector<LeftOut> copies;      // of a member: the same process once more
};

// What Unreadable says of `path`, without the path.
std::string reason_of(const trace::Unreadable&, const std::string& path);

// Reads the first page of each file.
Family find_family(const std::vector<std::string>& paths);

}  // namespace heapspy::report
