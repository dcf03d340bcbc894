// What the program itself asks of its recorder (heapspy/control.h). Not from control.h, whose macros have the same names.
#include "event_writer.h"
#include "recorder.h"
#include "ring_copy.h"
#include "snapshot.h"

using namespace heapspy;

// make_room first, room or not: it stamps the time, and a mark is worth an exact one.
HEAPSPY_EXPORT void heapspy_mark(const char* text) {
  if (!text || !make_room()) return;
  uint64_t words[format::kMaxRecordWords];
  const uint32_t count = 1 + format::encode_text(text, words + 1, format::kMaxRecordWords - 1);
  words[0] = format::encode_first(format::Kind::mark, count, 0);
  write_words(words, count);
}

HEAPSPY_EXPORT void heapspy_snapshot() {
  if (!make_room()) return;  // not recorded, or the recorder itself is at work in this thread
  Shut shut;
  if (options.mode == format::Mode::ring)
    ring_copy::freeze(format::Trigger::requested);
  else
    snapshot::take(format::SnapshotReason::requested);
}
