// The recorder's settings, read once from the environment before the first event.
#pragma once
#include <cstdint>

#include "heapspy/format/layout.h"
#include "message.h"
#include "trigger.h"

namespace heapspy {

// What HEAPSPY_CHILDREN=none becomes in the environment that a process hands to its children (as long as "none": it is
// written in place).
inline constexpr char kChildrenSkip[] = "skip";

#if defined(__x86_64__)
inline constexpr auto kAutomaticStacks = format::Stacks::dwarf;
#else
inline constexpr auto kAutomaticStacks = format::Stacks::none;
#endif
inline constexpr uint32_t kMostStackDepth = 1024;

struct Options {
  bool on = true;  // false: HEAPSPY_MODE=off, or HEAPSPY_ONLY names others
  format::Mode mode = format::Mode::full;
  const char* out = "heapspy.%n.%p.%t.hspy";  // points into the environment
  format::Clock clock = format::Clock::stamp;
  uint64_t max_bytes = 8ull << 30;
  uint64_t sample_bytes = 512u << 10;
  uint64_t ring_bytes = 64u << 20;
  bool snapshot_at_peak = true;
  bool snapshot_at_exit = true;
  uint64_t snapshot_every_ns = 0;  // 0: not by time
  trigger::Settings trigger;
  format::Stacks stacks = kAutomaticStacks;
  bool stacks_asked_for = false;
  uint32_t stack_depth = 64;
  bool java = true;
  bool follow_children = true;
  bool control = true;
  bool touch = false;
  LogLevel log = LogLevel::error;
};

// Reads `environment`. A value that cannot be read: one message, and `on` is false. `program` gives the name
// that is matched with HEAPSPY_ONLY, where that is set.
Options read_options(char** environment, const char* (*program)());

// "64MiB", "8g", "512": bytes; powers of 1024. False where it is none.
bool parse_size(const char* text, uint64_t* bytes);
// Shell pattern with *, ? and classes.
bool matches(const char* pattern, const char* text);

}  // namespace heapspy
