#include "event_writer.h"

namespace heapspy {

using namespace format;

void write_words(const uint64_t* words, uint32_t count) {
  ThreadState* thread = writable_thread();
  if (!thread) return;
  const uint64_t at = claim(*thread, count);
  for (uint32_t i = 0; i < count; i++) put(*thread, at + i, words[i] & ~kLapBit);
}

void write_long_allocation(Origin origin, unsigned log2_alignment, uint64_t address, uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::allocation, 3, encode_allocation_payload(origin, log2_alignment)),
                            encode_number(address), encode_number(size)};
  write_words(words, 3);
}
void write_long_release(Release release, uint64_t address) {
  const uint64_t words[] = {encode_first(Kind::release, 2, static_cast<uint64_t>(release)), encode_number(address)};
  write_words(words, 2);
}
void write_long_realloc_begin(uint64_t address) {
  const uint64_t words[] = {encode_first(Kind::realloc_begin, 2, 0), encode_number(address)};
  write_words(words, 2);
}
void write_long_realloc_end(uint64_t address, uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::realloc_end, 3, 0), encode_number(address), encode_number(size)};
  write_words(words, 3);
}
void write_failed(Origin origin, uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::failed, 2, static_cast<uint64_t>(origin)), encode_number(size)};
  write_words(words, 2);
}
void write_realloc_failed(uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::realloc_failed, 2, 0), encode_number(size)};
  write_words(words, 2);
}
void write_realloc_freed() {
  const uint64_t word = encode_first(Kind::realloc_freed, 1, 0);
  write_words(&word, 1);
}

}  // namespace heapspy
