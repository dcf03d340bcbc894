// Mode ring: what freezes a copy of the rings (HEAPSPY_TRIGGER).
#pragma once
#include <cstdint>

#include "heapspy/format/layout.h"

namespace heapspy::trigger {

struct Settings {
  uint64_t rss_bytes = 0;       // rss=; 0: not
  uint32_t cgroup_percent = 0;  // cgroup=; of the cgroup's limit
  int signal = 0;               // signal=
  bool fail = false;            // an allocation returned null
  bool any() const { return rss_bytes || cgroup_percent || signal || fail; }
};
// "rss=1GiB,signal=RTMIN+3": false where it cannot be read.
bool parse(const char* text, Settings* to);

// Once, before the first event: takes the signal, if one was asked for.
void set_up(const Settings& settings);
// Looks at RSS, the cgroup and the signal, and freezes a copy, or has the helper do it. From upkeep; the thread is shut.
void freeze_if_due();
// An allocation of the calling thread failed.
void allocation_failed();

}  // namespace heapspy::trigger
