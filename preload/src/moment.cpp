#include "moment.h"

#include "event_writer.h"
#include "recorder.h"
#include "thread_life.h"

namespace heapspy {

bool may_write_moment() {
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

}  // namespace heapspy
