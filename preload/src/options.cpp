#include "options.h"

#include "text.h"

namespace heapspy {
namespace {

bool parse_number(const char*& text, uint64_t* value) {
  if (*text < '0' || *text > '9') return false;
  *value = 0;
  for (; *text >= '0' && *text <= '9'; text++) {
    if (*value > (UINT64_MAX - 9) / 10) return false;
    *value = *value * 10 + static_cast<uint64_t>(*text - '0');
  }
  return true;
}

// "10s", "500ms", "2m".
bool parse_duration(const char* text, uint64_t* ns) {
  uint64_t value;
  if (!parse_number(text, &value) || value == 0 || value > 1000000) return false;
  if (same(text, "s") || same(text, "")) return *ns = value * 1000000000u, true;
  if (same(text, "ms")) return *ns = value * 1000000u, true;
  if (same(text, "m")) return *ns = value * 60000000000u, true;
  return false;
}

bool read_mode(const char* value, Options* o) {
  if (same(value, "off")) return o->on = false, true;
  constexpr struct {
    const char* name;
    format::Mode mode;
  } kModes[] = {{"full", format::Mode::full},
                {"ring", format::Mode::ring},
                {"sample", format::Mode::sample},
                {"count", format::Mode::count}};
  for (const auto& each : kModes)
    if (same(value, each.name)) return o->mode = each.mode, true;
  return false;
}
bool read_sample(const char* value, Options* o) {
  return parse_size(value, &o->sample_bytes) && o->sample_bytes > 0 && o->sample_bytes < (1ull << 40);
}
bool read_ring(const char* value, Options* o) { return parse_size(value, &o->ring_bytes) && o->ring_bytes >= (1 << 20); }
bool read_stacks(const char* value, Options* o) {
  constexpr struct {
    const char* name;
    format::Stacks stacks;
  } kWays[] = {{"auto", kAutomaticStacks},
               {"none", format::Stacks::none},
               {"fp", format::Stacks::frame_pointers},
               {"dwarf", format::Stacks::dwarf},
               {"libunwind", format::Stacks::libunwind}};
  for (const auto& each : kWays)
    if (same(value, each.name)) return o->stacks = each.stacks, o->stacks_asked_for = !same(value, "auto"), true;
  return false;
}
bool read_java(const char* value, Options* o) {
  if (same(value, "off")) return o->java = false, true;
  return same(value, "auto");
}
bool read_clock(const char* value, Options* o) {
  if (same(value, "stamp")) return o->clock = format::Clock::stamp, true;
  if (same(value, "event")) return o->clock = format::Clock::event, true;
  return false;
}
bool read_max(const char* value, Options* o) { return parse_size(value, &o->max_bytes) && o->max_bytes >= (1 << 16); }
bool read_trigger(const char* value, Options* o) { return trigger::parse(value, &o->trigger); }
bool read_snapshot(const char* value, Options* o) {
  o->snapshot_at_peak = o->snapshot_at_exit = false;
  if (same(value, "off")) return true;
  while (*value) {
    char word[32];
    Text text(word, sizeof word);
    for (; *value && *value != ','; value++) text.add(value, 1);
    if (*value == ',') value++;
    if (same(word, "peak"))
      o->snapshot_at_peak = true;
    else if (same(word, "exit"))
      o->snapshot_at_exit = true;
    else if (!begins_with(word, "every=") || !parse_duration(word + 6, &o->snapshot_every_ns))
      return false;
  }
  return o->snapshot_at_peak || o->snapshot_at_exit || o->snapshot_every_ns;
}
bool read_children(const char* value, Options* o) {
  if (same(value, "none")) return o->follow_children = false, true;
  if (same(value, kChildrenSkip)) return o->on = false, true;
  return same(value, "follow");
}
bool read_control(const char* value, Options* o) {
  if (same(value, "off")) return o->control = false, true;
  return same(value, "on");
}
bool read_touch(const char* value, Options* o) {
  if (same(value, "on")) return o->touch = true, true;
  return same(value, "off");
}
bool read_log(const char* value, Options* o) {
  if (same(value, "off")) return o->log = LogLevel::off, true;
  if (same(value, "error")) return o->log = LogLevel::error, true;
  if (same(value, "info")) return o->log = LogLevel::info, true;
  return false;
}
bool read_out(const char* value, Options* o) {
  o->out = value;
  return *value != 0;
}
bool read_depth(const char* value, Options* o) {
  uint64_t depth;
  if (!parse_number(value, &depth) || *value || depth == 0 || depth > kMostStackDepth) return false;
  return o->stack_depth = static_cast<uint32_t>(depth), true;
}

struct Setting {
  const char* name;
  bool (*read)(const char* value, Options*);
  const char* accepted;
};

// HEAPSPY_LOG is first, so that the messages about the others obey it.
constexpr Setting kSettings[] = {
    {"HEAPSPY_LOG", read_log, "off, error, info"},
    {"HEAPSPY_MODE", read_mode, "full, ring, sample, count, off"},
    {"HEAPSPY_SAMPLE", read_sample, "a size, such as 512KiB"},
    {"HEAPSPY_RING", read_ring, "a size of at least 1MiB, such as 64MiB"},
    {"HEAPSPY_OUT", read_out, "a file template with %p %n %h %t %%, or a folder"},
    {"HEAPSPY_STACKS", read_stacks, "auto, none, fp, dwarf, libunwind"},
    {"HEAPSPY_JAVA", read_java, "auto, off"},
    {"HEAPSPY_DEPTH", read_depth, "a number of frames from 1 to 1024"},
    {"HEAPSPY_CLOCK", read_clock, "stamp, event"},
    {"HEAPSPY_MAX", read_max, "a size of at least 64KiB, such as 8GiB"},
    {"HEAPSPY_SNAPSHOT", read_snapshot, "off, or some of peak,exit,every=10s"},
    {"HEAPSPY_TRIGGER", read_trigger, "some of rss=1GiB,cgroup=90%,signal=RTMIN+3,fail"},
    {"HEAPSPY_CHILDREN", read_children, "follow, none"},
    {"HEAPSPY_CONTROL", read_control, "on, off"},
    {"HEAPSPY_TOUCH", read_touch, "off, on"},
};

const char* value_of(char** environment, const char* name) {
  const size_t length = length_of(name);
  for (; environment && *environment; environment++)
    if (begins_with(*environment, name) && (*environment)[length] == '=') return *environment + length + 1;
  return nullptr;
}

}  // namespace

bool parse_size(const char* text, uint64_t* bytes) {
  uint64_t value;
  if (!parse_number(text, &value)) return false;
  int shift = -1;
  if (same(text, "") || same(text, "B")) shift = 0;
  if (same(text, "k") || same(text, "K") || same(text, "KiB")) shift = 10;
  if (same(text, "m") || same(text, "M") || same(text, "MiB")) shift = 20;
  if (same(text, "g") || same(text, "G") || same(text, "GiB")) shift = 30;
  if (shift < 0 || value > (UINT64_MAX >> shift)) return false;
  *bytes = value << shift;
  return true;
}

namespace {

// One character of the pattern against one of the text: a letter, ?, or a class such as [a-z0] or [!x]. Moves `pattern` past
// it.
bool matches_one(const char*& pattern, char c) {
  if (*pattern == '?') return pattern++, true;
  const char* at = pattern + 1;
  if (*pattern != '[' || !*at) return *pattern++ == c;
  const bool inverted = *at == '!' || *at == '^';
  at += inverted;
  bool inside = false;
  do {
    if (!*at) return *pattern++ == c;  // never closed: an ordinary bracket
    const char from = *at++;
    const bool range = *at == '-' && at[1] && at[1] != ']';
    const char to = range ? at[1] : from;
    if (range) at += 2;
    inside = inside || (from <= c && c <= to);
  } while (*at != ']');
  pattern = at + 1;
  return inside != inverted;
}

}  // namespace

bool matches(const char* pattern, const char* text) {
  const char* star = nullptr;
  const char* from = text;
  while (*text) {
    if (*pattern == '*') {
      star = ++pattern;
      from = text;
    } else if (*pattern && matches_one(pattern, *text)) {
      text++;
    } else if (star) {
      pattern = star;
      text = ++from;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

Options read_options(char** environment, const char* (*program)()) {
  Options options;
  for (const Setting& setting : kSettings) {
    const char* value = value_of(environment, setting.name);
    if (!value) continue;
    if (!setting.read(value, &options)) {
      message::bad_setting(setting.name, value, setting.accepted);
      options.on = false;
      return options;
    }
    if (setting.read == read_log) message::set_level(options.log);
  }
  const char* only = value_of(environment, "HEAPSPY_ONLY");
  if (only && !matches(only, program())) options.on = false;
  return options;
}

}  // namespace heapspy
