// ThreadBuilder: the records of one thread.
#include <initializer_list>

#include "heapspy/format/decode.h"
#include "heapspy/format/encode.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {

using format::Kind;
using format::Operation;
using format::Origin;
using format::Release;

ThreadBuilder& ThreadBuilder::word(std::uint64_t value) {
  words_.push_back(value);
  return *this;
}

ThreadBuilder& ThreadBuilder::stamp(Tick tick) {
  if (!stamped_) first_tick_ = tick;
  stamped_ = true;
  last_tick_ = tick;
  return word(format::encode_stamp(Kind::stamp, tick));
}

ThreadBuilder& ThreadBuilder::stamp_off_cpu(Tick tick) {
  stamp(tick);
  words_.back() = format::encode_stamp(Kind::stamp_off_cpu, tick);
  return *this;
}

ThreadBuilder& ThreadBuilder::record(Kind kind, std::uint64_t payload, std::initializer_list<std::uint64_t> numbers,
                                     std::string_view text) {
  std::uint64_t encoded[format::kMaxRecordWords];
  const std::string terminated(text);
  const auto room = static_cast<std::uint32_t>(format::kMaxRecordWords - 1 - numbers.size());
  const std::uint32_t text_words = format::encode_text(terminated.c_str(), encoded, room);
  const auto words = static_cast<std::uint32_t>(1 + numbers.size() + text_words);
  word(format::encode_first(kind, words, payload));
  for (const std::uint64_t number : numbers) word(format::encode_number(number));
  for (std::uint32_t i = 0; i < text_words; i++) word(encoded[i]);
  return *this;
}

ThreadBuilder& ThreadBuilder::allocation(Origin origin, Operation operation, std::uint64_t address, std::uint64_t size) {
  if (format::fits_short(address, size)) return word(format::encode_short(operation, address, size));
  return record(Kind::allocation, format::encode_allocation_payload(origin, 0), {address, size});
}

ThreadBuilder& ThreadBuilder::malloc(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::malloc, Operation::malloc, address, size);
}
ThreadBuilder& ThreadBuilder::calloc(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::calloc, Operation::calloc, address, size);
}
ThreadBuilder& ThreadBuilder::operator_new(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::operator_new, Operation::operator_new, address, size);
}
ThreadBuilder& ThreadBuilder::realloc_new(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::realloc, Operation::realloc_new, address, size);
}
ThreadBuilder& ThreadBuilder::aligned(std::uint64_t address, std::uint64_t size, unsigned log2_alignment) {
  return record(Kind::allocation, format::encode_allocation_payload(Origin::aligned, log2_alignment), {address, size});
}
ThreadBuilder& ThreadBuilder::operator_new_aligned(std::uint64_t address, std::uint64_t size, unsigned log2_alignment) {
  return record(Kind::allocation, format::encode_allocation_payload(Origin::operator_new_aligned, log2_alignment),
                {address, size});
}

ThreadBuilder& ThreadBuilder::free(std::uint64_t address) {
  if (format::fits_short(address, 0)) return word(format::encode_short(Operation::free, address, 0));
  return record(Kind::release, static_cast<std::uint64_t>(Release::free), {address});
}
ThreadBuilder& ThreadBuilder::operator_delete(std::uint64_t address) {
  constexpr auto release = static_cast<std::uint64_t>(Release::operator_delete);
  if (format::fits_short(address, 0)) return word(format::encode_short(Operation::free, address, release));
  return record(Kind::release, release, {address});
}

ThreadBuilder& ThreadBuilder::realloc(std::uint64_t before, std::uint64_t after, std::uint64_t size) {
  return realloc_begin(before).realloc_end(after, size);
}
ThreadBuilder& ThreadBuilder::realloc_begin(std::uint64_t address) {
  if (format::fits_short(address, 0)) return word(format::encode_short(Operation::realloc_begin, address, 0));
  return record(Kind::realloc_begin, 0, {address});
}
ThreadBuilder& ThreadBuilder::realloc_end(std::uint64_t address, std::uint64_t size) {
  if (format::fits_short(address, size)) return word(format::encode_short(Operation::realloc_end, address, size));
  return record(Kind::realloc_end, 0, {address, size});
}
ThreadBuilder& ThreadBuilder::realloc_failed(std::uint64_t size) { return record(Kind::realloc_failed, 0, {size}); }
ThreadBuilder& ThreadBuilder::realloc_freed() { return record(Kind::realloc_freed, 0, {}); }

ThreadBuilder& ThreadBuilder::failed(Origin origin, std::uint64_t size) {
  return record(Kind::failed, static_cast<std::uint64_t>(origin), {size});
}
ThreadBuilder& ThreadBuilder::start(std::string_view name, std::uint64_t stack_address) {
  return record(Kind::thread_start, tid_, {stack_address}, name);
}
ThreadBuilder& ThreadBuilder::name(std::string_view text, std::uint32_t tid) {
  return record(Kind::thread_name, tid ? tid : tid_, {}, text);
}
ThreadBuilder& ThreadBuilder::java(std::string_view group, bool daemon, std::uint32_t tid) {
  return record(Kind::java_thread, (tid ? tid : tid_) | (daemon ? format::kDaemonBit : 0), {}, group);
}
ThreadBuilder& ThreadBuilder::end() { return record(Kind::thread_end, 0, {}); }
ThreadBuilder& ThreadBuilder::mark(std::string_view text) { return record(Kind::mark, 0, {}, text); }
ThreadBuilder& ThreadBuilder::stack(std::uint64_t cell) { return record(Kind::stack, cell, {}); }

ThreadBuilder& ThreadBuilder::paused() { return record(Kind::paused, 0, {}); }
ThreadBuilder& ThreadBuilder::resumed() { return record(Kind::resumed, 0, {}); }

ThreadBuilder& ThreadBuilder::chunk() { return lose(0); }

ThreadBuilder& ThreadBuilder::lose(std::uint64_t words, std::uint64_t events) {
  cuts_.push_back({words_.size(), words, last_tick_});
  lost_events_ += events;
  return *this;
}

}  // namespace heapspy::test
