// What a thread counted of its own stream, held against what is read: a difference is a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "analyzer/trace/timeline.h"
#include "heapspy/format/decode.h"
#include "tests/support/trace_builder.h"
#include "tests/trace/event_log.h"

namespace heapspy::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Long and short records, in chunks that cut long ones.
TraceBuilder counted(std::uint64_t ring_tail_words = 0) {
  TraceBuilder::Options options;
  options.chunk_words = 32;
  options.counted = true;
  options.ring_tail_words = ring_tail_words;
  TraceBuilder trace(options);
  for (std::uint32_t id = 1; id <= 2; id++) {
    auto& thread = trace.thread("a thread with a name", 100 + id, id);
    for (std::uint64_t i = 0; i < 100; i++) {
      thread.stamp(1000 * i + id).malloc(id << 20 | i << 8, 40).aligned(id << 20 | i << 8 | 0x80, 1 << 20);
      thread.free(id << 20 | i << 8).realloc(id << 20 | i << 8 | 0x80, id << 20 | i << 8 | 0x40, 7);
    }
  }
  return trace;
}

struct Read {
  explicit Read(const std::string& bytes) : file(bytes), reader(file.path()) {
    for (int i = 0; i < 2; i++) {  // what is noted is noted once
      EventLog log;
      trace::Timeline(reader, {&log}).run();
    }
  }
  TemporaryFile file;
  trace::Reader reader;
};

// Offsets of the payloads of the events chunks.
std::vector<std::uint64_t> chunks_of(const std::string& bytes) {
  std::vector<std::uint64_t> offsets;
  format::ChunkHeader header;
  for (std::size_t at = format::kPageBytes; at + sizeof header <= bytes.size(); at += format::kChunkAlignment) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic == format::kChunkMagic && header.kind == format::ChunkKind::events) offsets.push_back(at + sizeof header);
  }
  return offsets;
}

TEST(RecordCounts, OfAWholeTraceAgree) {
  for (const std::uint64_t tail : {0, 1, 7, 200}) {
    SCOPED_TRACE(tail);
    const Read read(counted(tail).bytes());
    EXPECT_EQ(read.reader.lost_events(), 0u);
    EXPECT_THAT(read.reader.damage(), IsEmpty());
    std::size_t counts = 0;
    for (const trace::ThreadStream& thread : read.reader.threads()) counts += thread.counts.size();
    EXPECT_GT(counts, 10u);
  }
}

TEST(RecordCounts, ARecordThatWasClaimedAndNotWrittenIsLost) {
  std::string bytes = counted().bytes();
  const std::vector<std::uint64_t> chunks = chunks_of(bytes);
  // A stamp in the third chunk; the checksum is set right, as if it had never been there.
  const std::uint64_t at = chunks.at(2);
  std::uint64_t words[16];
  std::memcpy(words, bytes.data() + at, sizeof words);
  std::size_t stamp = 1;
  while (!format::is_stamp(words[stamp])) stamp++;
  words[stamp] = 0;
  std::memcpy(bytes.data() + at, words, sizeof words);
  format::ChunkHeader header;
  std::memcpy(&header, bytes.data() + at - sizeof header, sizeof header);
  header.payload_checksum = format::checksum(bytes.data() + at, header.payload_bytes);
  header.header_checksum = format::checksum(&header, sizeof header - sizeof header.header_checksum);
  std::memcpy(bytes.data() + at - sizeof header, &header, sizeof header);
  const Read read(bytes);
  EXPECT_EQ(read.reader.lost_events(), 1u);
  ASSERT_EQ(read.reader.damage().size(), 2u);  // and the hole itself
  EXPECT_THAT(read.reader.damage()[1].reason, HasSubstr("thread 1 counted "));
  EXPECT_EQ(read.reader.damage()[1].offset, chunks.at(3));  // the thread had counted two words further
}

TEST(RecordCounts, AChunkThatIsDestroyedIsLost) {
  std::string bytes = counted().bytes();
  const std::vector<std::uint64_t> chunks = chunks_of(bytes);
  std::memset(bytes.data() + chunks.at(3) - sizeof(format::ChunkHeader), 0x11, sizeof(format::ChunkHeader));
  const Read read(bytes);
  EXPECT_GE(read.reader.lost_events(), 20u);  // of 32 words, five records in eight
  EXPECT_LE(read.reader.lost_events(), 32u);
}

TEST(RecordCounts, WhatTheRecorderCountedAsLostIsNotCountedTwice) {
  TraceBuilder::Options options;
  options.counted = true;
  TraceBuilder trace(options);
  auto& thread = trace.thread("main", 1);
  thread.stamp(10).malloc(0x1000, 1).lose(5, 4).stamp(20).malloc(0x2000, 1);
  trace.header().failed_appends = 1;
  trace.header().unregistered_lost = 4;
  const Read read(trace.bytes());
  EXPECT_EQ(read.reader.lost_events(), 4u);
}

TEST(RecordCounts, AreNotComparedInARingThatHoldsTheNewestOnly) {
  TraceBuilder::Options options;
  options.counted = true;
  TraceBuilder trace(options);
  trace.header().mode = format::Mode::ring;
  trace.thread("main", 1).stamp(10).lose(500).start("main").stamp(20).malloc(0x2000, 1);
  const Read read(trace.bytes());
  EXPECT_EQ(read.reader.lost_events(), 0u);
  EXPECT_THAT(read.reader.damage(), IsEmpty());
}

}  // namespace
}  // namespace heapspy::test
