// What the program itself asks of its recorder (heapspy/control.h). Not from control.h, whose macros have the same names.
#include "entry_table.h"
#include "event_writer.h"
#include "lock.h"
#include "recorder.h"
#include "ring_copy.h"
#include "snapshot.h"
#include "thread_life.h"

using namespace heapspy;

namespace {

// True where this process has a trace and the calling thread is not at work for the recorder itself.
bool may_ask() {
  if ((recorder && recorder->at_rest) || tls.state->life == Life::lost) return false;
  return thread_of_event() && recorder && recorder->alive;
}

// make_room first, room or not: it stamps the time, and a moment that is named is worth an exact one. Mode count has no stream.
void write_moment(format::Kind kind, const char* text) {
  if (!make_room()) return;
  uint64_t words[format::kMaxRecordWords];
  const uint32_t count = 1 + format::encode_text(text, words + 1, format::kMaxRecordWords - 1);
  words[0] = format::encode_first(kind, count, 0);
  write_words(words, count);
}

}  // namespace

HEAPSPY_EXPORT void heapspy_mark(const char* text) {
  if (text && may_ask()) write_moment(format::Kind::mark, text);
}

HEAPSPY_EXPORT void heapspy_snapshot() {
  if (!may_ask()) return;
  Shut shut;
  if (options.mode == format::Mode::ring)
    ring_copy::freeze(format::Trigger::requested);
  else
    snapshot::take(format::SnapshotReason::requested);
}

HEAPSPY_EXPORT void heapspy_stop() {
  if (!may_ask()) return;
  os::SignalsBlocked blocked;
  Locked locked(recorder->pause_lock);
  if (recorder->paused) return;
  recorder->paused = true;
  write_moment(format::Kind::paused, "");
  enter_no_mode();
}

HEAPSPY_EXPORT void heapspy_start() {
  if (!may_ask()) return;
  os::SignalsBlocked blocked;
  Locked locked(recorder->pause_lock);
  if (!recorder->paused) return;
  recorder->paused = false;
  write_moment(format::Kind::resumed, "");
  enter_mode(options.mode, options.stacks);
}
