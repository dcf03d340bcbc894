// What the program itself asks of its recorder (heapspy/control.h). Not from control.h, whose macros have the same names.
#include "entry_table.h"
#include "lock.h"
#include "moment.h"
#include "recorder.h"
#include "ring_copy.h"
#include "snapshot.h"

using namespace heapspy;

HEAPSPY_EXPORT void heapspy_mark(const char* text) {
  if (text && may_write_moment()) write_moment(format::Kind::mark, text);
}

HEAPSPY_EXPORT void heapspy_snapshot() {
  if (!may_write_moment()) return;
  Shut shut;
  if (options.mode == format::Mode::ring)
    ring_copy::freeze(format::Trigger::requested);
  else
    snapshot::take(format::SnapshotReason::requested);
}

HEAPSPY_EXPORT void heapspy_stop() {
  if (!may_write_moment()) return;
  os::SignalsBlocked blocked;
  Locked locked(recorder->pause_lock);
  if (recorder->paused) return;
  recorder->paused = true;
  write_moment(format::Kind::paused, "");
  enter_no_mode();
}

HEAPSPY_EXPORT void heapspy_start() {
  if (!may_write_moment()) return;
  os::SignalsBlocked blocked;
  Locked locked(recorder->pause_lock);
  if (!recorder->paused) return;
  recorder->paused = false;
  write_moment(format::Kind::resumed, "");
  enter_mode(options.mode, options.stacks);
}
