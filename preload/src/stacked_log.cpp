#include "stacked_log.h"

#include "unwind/capture.h"

namespace heapspy {

using namespace format;

namespace {

uint64_t stack_word(uint32_t stack) { return encode_first(Kind::stack, 1, stack); }

// What the stream must say before an allocation; 0: nothing, it comes from where it is expected to. Before the words are
// claimed: a handler that comes between the two says again what it finds in last_stack, which is therefore the first to be
// written.
HEAPSPY_HOT uint64_t word_before(ThreadState& thread, uint32_t stack) {
  const uint32_t last = thread.last_stack;
  *const_cast<volatile uint32_t*>(&thread.last_stack) = stack;
  auto& forgotten = *const_cast<volatile bool*>(&thread.stacks_forgotten);
  if (forgotten) {
    forgotten = false;
    thread.followed.forget();
    return stack_word(stack);
  }
  if (thread.followed.after(last) == stack) return 0;
  thread.followed.note(last, stack);
  return encode_first(Kind::next_stack, 1, stack);
}

HEAPSPY_COLD void write_nested(ThreadState& thread, const unwind::Capture& capture, const uint64_t* words, uint32_t count) {
  uint64_t* at = claim(thread, count + 2);
  put(thread, at, stack_word(capture.stack()));
  for (uint32_t i = 0; i < count; i++) put(thread, at + 1 + i, words[i] & ~kLapBit);
  put(thread, at + 1 + count, stack_word(thread.last_stack));
  thread.stacks_forgotten = true;
}

HEAPSPY_COLD void write_words_with_stack(const uint64_t* words, uint32_t count, unwind::Registers caller) {
  ThreadState* thread = tls.state;
  if (!has_room(*thread) && !(thread = make_room())) return;
  unwind::Capture capture(*thread, caller);
  if (!has_words(*thread)) return;  // forked by a handler: not the child's event
  thread->extra_words += count - 1;
  if (capture.nested()) {
    write_nested(*thread, capture, words, count);
  } else {
    const uint64_t before = word_before(*thread, capture.stack());
    uint64_t* at = claim(*thread, count + (before != 0));
    if (before) put(*thread, at++, before);
    for (uint32_t i = 0; i < count; i++) put(*thread, at + i, words[i] & ~kLapBit);
  }
  count_record(*thread, words);
}

HEAPSPY_COLD void* make_room_then_write_with_stack(uint64_t word, void* block, uint64_t pc, uint64_t sp, uint64_t bp) {
  write_words_with_stack(&word, 1, {pc, sp, bp});
  return block;
}

}  // namespace

void* write_short_with_stack(uint64_t word, void* block, uint64_t pc, uint64_t sp, uint64_t bp) {
  ThreadState& thread = *tls.state;
  if (!has_room(thread)) return make_room_then_write_with_stack(word, block, pc, sp, bp);
  unwind::Capture capture(thread, {pc, sp, bp});
  if (HEAPSPY_UNLIKELY(!has_words(thread))) return block;
  if (HEAPSPY_UNLIKELY(capture.nested())) {
    write_nested(thread, capture, &word, 1);
  } else if (const uint64_t before = word_before(thread, capture.stack())) {
    uint64_t* at = claim(thread, 2);
    put(thread, at, before);
    put(thread, at + 1, word);
  } else {
    put(thread, claim(thread, 1), word);
  }
  if (thread.counters) count_short(*thread.counters, word);
  return block;
}

void* write_long_allocation_with_stack(unsigned origin_and_alignment, void* block, uint64_t size, uint64_t pc, uint64_t sp,
                                       uint64_t bp) {
  const uint64_t words[] = {encode_first(Kind::allocation, 3, origin_and_alignment),
                            encode_number(reinterpret_cast<uint64_t>(block)), encode_number(size)};
  write_words_with_stack(words, 3, {pc, sp, bp});
  return block;
}

void* write_long_realloc_end_with_stack(void* block, uint64_t size, uint64_t pc, uint64_t sp, uint64_t bp) {
  const uint64_t words[] = {encode_first(Kind::realloc_end, 3, 0), encode_number(reinterpret_cast<uint64_t>(block)),
                            encode_number(size)};
  write_words_with_stack(words, 3, {pc, sp, bp});
  return block;
}

}  // namespace heapspy
