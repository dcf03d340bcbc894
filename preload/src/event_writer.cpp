#include "event_writer.h"

#include "trigger.h"

namespace heapspy {

using namespace format;

namespace {
uint64_t address_of(void* block) { return encode_number(reinterpret_cast<uint64_t>(block)); }
}  // namespace

void write_words(const uint64_t* words, uint32_t count) {
  ThreadState* thread = tls.state;
  if (!has_room(*thread) && !(thread = make_room(true))) return;  // it may be a free
  thread->extra_words += count - 1;
  uint64_t* at = claim(*thread, count);
  for (uint32_t i = 0; i < count; i++) put(*thread, at + i, words[i] & ~kLapBit);
  count_record(*thread, words);
}

void* make_room_then_write(uint64_t word, void* block) {
  if (ThreadState* thread = make_room()) {
    put(*thread, claim(*thread, 1), word);
    count_record(*thread, &word);
  }
  return block;
}

void make_room_then_write_and_free(uint64_t word, void* block, void (*free)(void*)) {
  if (ThreadState* thread = make_room(true)) {
    put(*thread, claim(*thread, 1), word);
    count_record(*thread, &word);
  }
  free(block);
}

void* write_long_allocation(Origin origin, unsigned log2_alignment, void* block, uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::allocation, 3, encode_allocation_payload(origin, log2_alignment)),
                            address_of(block), encode_number(size)};
  write_words(words, 3);
  return block;
}

void write_long_release_and_free(Release release, void* block, void (*free)(void*)) {
  const uint64_t words[] = {encode_first(Kind::release, 2, static_cast<uint64_t>(release)), address_of(block)};
  write_words(words, 2);
  free(block);
}

void write_long_realloc_begin(void* block) {
  const uint64_t words[] = {encode_first(Kind::realloc_begin, 2, 0), address_of(block)};
  write_words(words, 2);
}

void* write_long_realloc_end(void* block, uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::realloc_end, 3, 0), address_of(block), encode_number(size)};
  write_words(words, 3);
  return block;
}

void* write_failed(Origin origin, uint64_t size) {
  const uint64_t words[] = {encode_first(Kind::failed, 2, static_cast<uint64_t>(origin)), encode_number(size)};
  write_words(words, 2);
  trigger::allocation_failed();
  return nullptr;
}

void* write_realloc_without_block(uint64_t size) {
  const uint64_t freed[] = {encode_first(Kind::realloc_freed, 1, 0)};
  const uint64_t failed[] = {encode_first(Kind::realloc_failed, 2, 0), encode_number(size)};
  if (size == 0)
    write_words(freed, 1);
  else
    write_words(failed, 2), trigger::allocation_failed();
  return nullptr;
}

}  // namespace heapspy
