#include "analyzer/trace/reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "analyzer/trace/timeline.h"
#include "tests/support/trace_builder.h"
#include "tests/trace/event_log.h"

namespace heapspy::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using trace::Reader;
using trace::Unreadable;

std::string why_unreadable(const std::string& path) {
  try {
    Reader reader(path);
  } catch (const Unreadable& error) {
    return error.what();
  }
  return "readable";
}

std::vector<std::string> reasons(const Reader& reader) {
  std::vector<std::string> all;
  for (const trace::Damage& damage : reader.damage()) all.push_back(damage.reason);
  return all;
}

std::vector<std::uint64_t> words_of(const Reader& reader, std::size_t thread) {
  std::vector<std::uint64_t> all, piece_words;
  for (const trace::StreamPiece& piece : reader.threads().at(thread).pieces) {
    reader.read(piece, piece_words);
    all.insert(all.end(), piece_words.begin(), piece_words.end());
  }
  return all;
}

void run_all(const Reader& reader) {
  EventLog log;
  trace::Timeline(reader, {&log}).run();
  for (std::size_t i = 0; i < reader.snapshots(); i++) reader.snapshot(i);
}

trace::Snapshot example_snapshot(trace::Tick tick) {
  trace::Snapshot snapshot;
  snapshot.begin = tick;
  snapshot.end = tick + 5;
  snapshot.reason = format::SnapshotReason::peak;
  snapshot.rss_bytes = 0xA1A2000;
  snapshot.recorder_bytes = 0xB1000;
  snapshot.brk_end = 0x55550000;
  snapshot.mappings.resize(2);
  snapshot.mappings[0] = {0x1000, 0x9000, 0x11, 0x12, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, true, true, false, false, ""};
  snapshot.mappings[1] = {0x20000, 0x90000, 0x21, 0x22, 1, 2, 3, 4, 5, true, false, true, true, "/usr/lib/x.so"};
  snapshot.resident.push_back({0x1000, 8, format::Residency::bitmap, {0xA5}});
  snapshot.resident.push_back({0x20000, 100, format::Residency::all, {}});
  snapshot.heaps.push_back({0x7f0000000000, 0x7f0000000030, 0, 0x21000, 0x7f0000001000, 0x21000});
  snapshot.thread_names = {{100, "main"}, {101, "a thread's name"}};
  snapshot.status_text = "Name:\tx\nVmRSS:\t12 kB\n";
  snapshot.cgroup = {{"memory.current", "12345"}, {"memory.stat", "anon 1\nfile 2"}};
  return snapshot;
}

// A little of everything: two threads, several chunks, rings, process, snapshot.
TraceBuilder small_trace(std::uint64_t ring_tail = 8) {
  TraceBuilder::Options options;
  options.chunk_words = 16;
  options.ring_tail_words = ring_tail;
  options.ring_bytes = 128;
  options.slots = 2;
  options.ring_start = 24;
  TraceBuilder trace(options);
  trace.process(format::ProcessTag::exe, "/usr/bin/example")
      .process(format::ProcessTag::command, std::string_view("example\0-x\0", 11));
  auto& main = trace.thread("main", 100, 5, 0x7ffd12345678);
  auto& worker = trace.thread("worker", 101, 50);
  for (std::uint64_t i = 0; i < 30; i++) {
    if (i % 10 == 0) main.stamp(100 + i * 10);
    main.malloc(0x10000 + i * 32, 20 + i);
  }
  main.aligned(0x200000, 1 << 20).realloc(0x10000, 0x20000, 99).mark("half way");
  worker.stamp(600);
  for (std::uint64_t i = 1; i < 25; i++) worker.free(0x10000 + i * 32);
  worker.failed(format::Origin::malloc, 1ull << 50).end();
  trace.snapshot(example_snapshot(700));
  return trace;
}

// ---- what is not a trace -----------------------------------------------------------------------------------------
TEST(Reader, SaysInOneLineWhyAFileIsNoTrace) {
  TemporaryFile file;
  EXPECT_EQ(why_unreadable(file.path()), file.path() + ": empty, not a heapspy trace");
  file.write("hello");
  EXPECT_EQ(why_unreadable(file.path()), file.path() + ": not a heapspy trace");
  file.write(std::string(100000, 'x'));
  EXPECT_EQ(why_unreadable(file.path()), file.path() + ": not a heapspy trace");
  file.write(small_trace().bytes().substr(0, 11));
  EXPECT_EQ(why_unreadable(file.path()), file.path() + ": 11 bytes: shorter than a trace's header (4096 bytes)");
  EXPECT_EQ(why_unreadable("/nowhere/x.hspy"), "/nowhere/x.hspy: cannot open: No such file or directory; check the path");
  EXPECT_EQ(why_unreadable("/"), "/: is a folder, not a trace");
  EXPECT_EQ(why_unreadable("/dev/null"), "/dev/null: not a regular file, so not a trace");
}

TEST(Reader, SaysWhichVersionsItReadsWhenATraceIsNewer) {
  TraceBuilder trace;
  trace.thread("main", 100);
  trace.header().version = format::kVersion + 6;
  const TemporaryFile file(trace.bytes());
  EXPECT_EQ(why_unreadable(file.path()),
            file.path() + ": format version 8; this heapspy reads versions up to 2: use a newer heapspy");
}

TEST(Reader, DoesNotWaitForTheWriterOfAPipe) {
  const std::string path = testing::TempDir() + "heapspy-test-" + std::to_string(getpid()) + ".fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(why_unreadable(path), path + ": not a regular file, so not a trace");
  unlink(path.c_str());
}

// ---- what is in a trace ------------------------------------------------------------------------------------------
TEST(Reader, TellsTheProcess) {
  TraceBuilder trace;
  trace.header().ppid = 4200;
  trace.header().forked = 1;
  using format::ProcessTag;
  trace.process(ProcessTag::exe, "/usr/bin/java")
      .process(ProcessTag::command, std::string_view("java\0-jar\0\0x.jar\0", 17))
      .process(ProcessTag::host, "box")
      .process(ProcessTag::working_folder, "/srv")
      .process(ProcessTag::environment, std::string_view("MALLOC_ARENA_MAX=2\0LD_PRELOAD=a=b\0", 34))
      .process(static_cast<ProcessTag>(4711), "of a later version")
      .process(ProcessTag::allocator, "glibc")
      .process(ProcessTag::allocator_version, "2.36")
      .process(ProcessTag::glibc_version, "2.36")
      .process(ProcessTag::cpus, "16");
  trace.thread("main", 100, 77);
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  const trace::ProcessInfo& process = reader.process();
  EXPECT_EQ(process.pid, 4242u);
  EXPECT_EQ(process.ppid, 4200u);
  EXPECT_TRUE(process.forked);
  EXPECT_EQ(process.exe, "/usr/bin/java");
  EXPECT_THAT(process.command, ElementsAre("java", "-jar", "", "x.jar"));
  EXPECT_EQ(process.host, "box");
  EXPECT_EQ(process.working_folder, "/srv");
  EXPECT_THAT(process.environment, ElementsAre(std::pair<std::string, std::string>{"MALLOC_ARENA_MAX", "2"},
                                               std::pair<std::string, std::string>{"LD_PRELOAD", "a=b"}));
  EXPECT_EQ(process.allocator, "glibc");
  EXPECT_EQ(process.allocator_version, "2.36");
  EXPECT_EQ(process.glibc_version, "2.36");
  EXPECT_EQ(process.cpus, 16);
  EXPECT_EQ(process.start_realtime_ns, 1'700'000'000'000'000'000u);
  EXPECT_EQ(process.end, format::End::exit);
  EXPECT_EQ(process.end_tick, 77u);
  EXPECT_FALSE(process.running);
  EXPECT_THAT(reasons(reader), ElementsAre());
}

TEST(Reader, ReturnsASnapshotAsItWasWritten) {
  const trace::Snapshot wrote = example_snapshot(700);
  TraceBuilder trace;
  trace.thread("main", 100);
  trace.snapshot(wrote);
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  ASSERT_EQ(reader.snapshots(), 1u);
  EXPECT_EQ(reader.snapshot_tick(0), 700u);
  EXPECT_EQ(reader.snapshot_reason(0), format::SnapshotReason::peak);
  EXPECT_EQ(reader.snapshot_rss(0), 0xA1A2000u);
  const trace::Snapshot read = reader.snapshot(0);
  EXPECT_EQ(encode_snapshot(read), encode_snapshot(wrote));
  EXPECT_EQ(read.page_bytes, 4096u);
  EXPECT_EQ(read.mappings[1].name, "/usr/lib/x.so");
  EXPECT_TRUE(read.mappings[1].shared);
  EXPECT_FALSE(read.mappings[1].write);
  EXPECT_EQ(read.resident[0].resident(0), true);
  EXPECT_EQ(read.resident[0].resident(1), false);
  EXPECT_EQ(read.resident[0].resident(8), std::nullopt);
  EXPECT_EQ(read.resident[1].resident(99), true);
  EXPECT_EQ(read.thread_names.at(101), "a thread's name");
  EXPECT_EQ(read.cgroup.at("memory.stat"), "anon 1\nfile 2");
}

TEST(Reader, OrdersSnapshotsByTime) {
  TraceBuilder trace;
  trace.thread("main", 100);
  trace.snapshot(example_snapshot(900)).snapshot(example_snapshot(300));
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  EXPECT_EQ(reader.snapshot_tick(0), 300u);
  EXPECT_EQ(reader.snapshot_tick(1), 900u);
}

TEST(Reader, TakesABitmapThatIsTooShortForUnknown) {
  trace::Snapshot snapshot = example_snapshot(1);
  snapshot.resident = {{0x1000, 65, format::Residency::bitmap, {~0ull}}};
  TraceBuilder trace;
  trace.thread("main", 100);
  trace.snapshot(snapshot);
  const TemporaryFile file(trace.bytes());
  EXPECT_EQ(Reader(file.path()).snapshot(0).resident.at(0).resident(64), std::nullopt);
}

TEST(Reader, ReadsTheSameWordsFromChunksAndFromRings) {
  std::vector<std::uint64_t> expected;
  for (const std::uint64_t tail : {0u, 1u, 7u, 15u, 16u}) {
    const TemporaryFile file(small_trace(tail).bytes());
    const Reader reader(file.path());
    ASSERT_EQ(reader.threads().size(), 2u);
    EXPECT_EQ(reader.threads()[0].tid, 100u);
    EXPECT_EQ(reader.threads()[1].pieces.back().in_ring, tail > 0);
    std::vector<std::uint64_t> words = words_of(reader, 0);
    if (expected.empty()) expected = words;
    EXPECT_EQ(words, expected);
    EXPECT_THAT(reasons(reader), ElementsAre());
    for (const std::uint64_t word : words) EXPECT_EQ(word & format::kLapBit, 0u);
  }
  // 1 stamp, 3 of thread_start, 3 stamps, 30 short ones, 3 + 2 of the aligned block and the realloc, 3 of the mark.
  EXPECT_EQ(expected.size(), 45u);
}

TEST(Reader, FindsTheEndOfTheValidWordsInEveryLapOfTheRing) {
  for (std::uint64_t start = 0; start < 64; start++) {
    TraceBuilder::Options options;
    options.ring_bytes = 128;  // 16 words
    options.ring_tail_words = 16;
    options.ring_start = start;
    TraceBuilder trace(options);
    auto& main = trace.bare_thread(100);
    main.stamp(5);
    for (std::uint64_t i = 0; i < start % 15; i++) main.malloc(0x1000 + i * 16, 8);
    const TemporaryFile file(trace.bytes());
    const Reader reader(file.path());
    EXPECT_EQ(words_of(reader, 0).size(), 1 + start % 15) << start;
    EXPECT_THAT(reasons(reader), ElementsAre());
  }
}

// The offset of the ring of the first thread's slot.
std::size_t first_ring(const std::string& bytes) {
  for (std::size_t at = format::kPageBytes; at < bytes.size(); at += format::kPageBytes) {
    format::ChunkHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic == format::kChunkMagic && header.kind == format::ChunkKind::staging) return at + format::kPageBytes;
  }
  return 0;
}

TEST(Reader, SkipsWordsThatWereClaimedAndNeverWritten) {
  TraceBuilder::Options options;
  options.ring_tail_words = 10;
  options.ring_bytes = 128;
  TraceBuilder trace(options);
  auto& main = trace.bare_thread(100);
  main.stamp(5);
  for (std::uint64_t i = 1; i < 10; i++) main.malloc(0x1000 * i, 8);
  std::string bytes = trace.bytes();
  std::memset(&bytes[first_ring(bytes) + 3 * 8], 0, 16);  // the words at 3 and 4
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  EventLog log;
  trace::Timeline(reader, {&log}).run();
  EXPECT_EQ(log.allocations, 7u);
  EXPECT_EQ(log.live.count(0x3000), 0u);
  EXPECT_EQ(log.live.count(0x5000), 1u);
  EXPECT_THAT(reasons(reader), ElementsAre("2 words of thread 1 claimed and never written"));
}

TEST(Reader, EndsAThreadAtThreeWordsThatWereNeverWritten) {
  TraceBuilder::Options options;
  options.ring_tail_words = 10;
  options.ring_bytes = 128;
  TraceBuilder trace(options);
  auto& main = trace.bare_thread(100);
  main.stamp(5);
  for (std::uint64_t i = 1; i < 10; i++) main.malloc(0x1000 * i, 8);
  std::string bytes = trace.bytes();
  std::memset(&bytes[first_ring(bytes) + 3 * 8], 0, 24);
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  EXPECT_EQ(words_of(reader, 0).size(), 3u);
}

TEST(Reader, SkipsStaleWordsOfTheLapBeforeInsideAChunk) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(5);
  for (std::uint64_t i = 1; i < 10; i++) main.malloc(0x1000 * i, 8);
  std::string bytes = trace.bytes();
  // Flip the lap bit of the word at 4 and seal the chunk again, as a recorder would that was interrupted before it wrote.
  format::ChunkHeader header;
  char* chunk = &bytes[format::kPageBytes];
  std::memcpy(&header, chunk, sizeof header);
  chunk[sizeof header + 4 * 8 + 7] ^= static_cast<char>(0x80);
  header.payload_checksum = format::checksum(chunk + sizeof header, header.payload_bytes);
  header.header_checksum = format::checksum(&header, 56);
  std::memcpy(chunk, &header, sizeof header);
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  EXPECT_EQ(words_of(reader, 0).at(4), 0u);
  EXPECT_THAT(reasons(reader), ElementsAre("1 words of thread 1 claimed and never written"));
}

// A chunk of a stream, sealed.
std::string sealed_chunk(std::uint32_t thread, std::uint64_t stream_at, const std::vector<std::uint64_t>& words) {
  format::ChunkHeader header{};
  header.magic = format::kChunkMagic;
  header.kind = format::ChunkKind::events;
  header.version = 1;
  header.payload_bytes = words.size() * 8;
  header.thread = thread;
  header.tid = 99 + thread;
  header.stream_at = stream_at;
  header.payload_checksum = format::checksum(words.data(), words.size() * 8);
  header.header_checksum = format::checksum(&header, 56);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(words.data()), words.size() * 8);
  bytes.resize(format::align_up(bytes.size(), 64));
  return bytes;
}

TEST(Reader, TakesWordsOnceThatAreBothInAChunkAndInTheRing) {
  // The chunk was written, then the process died before it could say so in the slot.
  TraceBuilder::Options options;
  options.ring_tail_words = 10;
  options.ring_bytes = 128;
  TraceBuilder trace(options);
  auto& main = trace.bare_thread(100);
  main.stamp(5);
  for (std::uint64_t i = 1; i < 10; i++) main.malloc(0x1000 * i, 8);
  const TemporaryFile plain(trace.bytes());
  const std::vector<std::uint64_t> all = words_of(Reader(plain.path()), 0);
  const std::vector<std::uint64_t> half(all.begin(), all.begin() + 6);

  const TemporaryFile file(trace.bytes() + sealed_chunk(1, 0, half));
  const Reader reader(file.path());
  ASSERT_EQ(reader.threads().at(0).pieces.size(), 2u);
  EXPECT_FALSE(reader.threads()[0].pieces[0].in_ring);
  EXPECT_EQ(reader.threads()[0].pieces[1].stream_at, 6u);
  EXPECT_EQ(words_of(reader, 0), all);

  // The chunk itself was cut short by the kill: then the ring has the words.
  std::string chunk = sealed_chunk(1, 0, half);
  std::memset(&chunk[64 + 3 * 8], 0, 24);
  const TemporaryFile broken(trace.bytes() + chunk);
  const Reader other(broken.path());
  ASSERT_EQ(other.threads().at(0).pieces.size(), 1u);
  EXPECT_TRUE(other.threads()[0].pieces[0].in_ring);
  EXPECT_EQ(words_of(other, 0), all);
}

TEST(Reader, NamesWhatIsMissingBetweenPieces) {
  TraceBuilder trace;
  auto& main = trace.thread("main", 100);
  main.stamp(10).malloc(0x1000, 8).lose(100, 90).stamp(20).free(0x2000);
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  ASSERT_EQ(reader.threads().at(0).pieces.size(), 2u);
  EXPECT_FALSE(reader.threads()[0].pieces[0].gap);
  EXPECT_TRUE(reader.threads()[0].pieces[1].gap);
  EXPECT_THAT(reasons(reader), ElementsAre("thread 1 lacks 100 words"));
}

TEST(Reader, SaysWhatStoppedTheRecording) {
  TraceBuilder::Options options;
  options.ring_tail_words = 2;
  options.ring_bytes = 128;
  TraceBuilder trace(options);
  trace.header().stop = static_cast<std::uint32_t>(format::Stop::no_space);
  trace.header().stop_errno = 28;
  trace.header().failed_appends = 3;
  trace.header().unregistered_lost = 5;
  auto& main = trace.thread("main", 100);
  main.stamp(10).malloc(0x1000, 8).lose(100, 90).stamp(20).malloc(0x3000, 8);
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  EXPECT_THAT(reasons(reader), ElementsAre("recording stopped: the disk was full (No space left on device); 3 appends failed",
                                           "thread 1 lacks 100 words: the disk was full"));
  EXPECT_EQ(reader.lost_events(), 95u);
  EXPECT_EQ(reader.threads()[0].lost_events, 90u);
}

TEST(Reader, DoesNotTakeReservedSpaceForDamage) {
  const TemporaryFile file(small_trace().bytes() + std::string(1 << 20, '\0') + sealed_chunk(7, 0, {format::kLapBit}));
  const Reader reader(file.path());
  EXPECT_THAT(reasons(reader), ElementsAre());
  EXPECT_EQ(reader.threads().size(), 3u);
}

TEST(Reader, LeapsOverHolesOfTheFile) {
  const TemporaryFile file(small_trace().bytes());
  ASSERT_EQ(truncate(file.path().c_str(), 1ll << 40), 0);
  const Reader reader(file.path());
  EXPECT_THAT(reasons(reader), ElementsAre());
  EXPECT_EQ(reader.size_bytes(), 1ull << 40);
}

TEST(Reader, FindsTheNextChunkAfterADamagedOne) {
  TraceBuilder trace;
  auto& main = trace.thread("main", 100);
  trace.thread("other", 101).stamp(1).malloc(0x5000, 8);
  main.stamp(1).malloc(0x1000, 8);
  std::string bytes = trace.bytes();
  bytes[format::kPageBytes + 5] ^= 1;  // the first chunk's kind
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  ASSERT_EQ(reader.threads().size(), 1u);
  EXPECT_EQ(reader.threads()[0].id, trace::ThreadId{2});
  ASSERT_EQ(reader.damage().size(), 1u);
  EXPECT_EQ(reader.damage()[0].offset, format::kPageBytes);
  EXPECT_EQ(reader.damage()[0].reason, "128 bytes are no part of a trace: damaged, skipped");
}

TEST(Reader, NotesAWrongChecksumOnceHoweverOftenItReads) {
  TraceBuilder trace;
  trace.thread("main", 100).stamp(1).malloc(0x1000, 8);
  std::string bytes = trace.bytes();
  bytes[format::kPageBytes + 64 + 8 * 4 + 1] ^= 4;
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  EXPECT_THAT(reasons(reader), ElementsAre());
  run_all(reader);
  run_all(reader);
  EXPECT_THAT(reasons(reader), ElementsAre("the checksum of a chunk of thread 1 does not hold; some of its 6 words are wrong"));
}

TEST(Reader, LeavesOutADamagedSnapshotRatherThanShowItsFigures) {
  TraceBuilder trace;
  trace.thread("main", 100);
  trace.snapshot(example_snapshot(3));
  std::string bytes = trace.bytes();
  bytes[bytes.size() - 100] ^= 1;
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  EXPECT_EQ(reader.snapshots(), 0u);
  EXPECT_THAT(reasons(reader), ElementsAre("a snapshot is damaged, left out"));
}

TEST(Reader, RefusesThreadIdsThatNoFileOfThisSizeCanHold) {
  TraceBuilder trace;
  trace.thread("main", 100);
  const TemporaryFile file(trace.bytes() + sealed_chunk(0x7FFFFFFF, 0, {format::kLapBit}));
  const Reader reader(file.path());
  EXPECT_EQ(reader.threads().size(), 1u);
  EXPECT_THAT(reasons(reader), ElementsAre("events of an impossible thread (2147483647), left out"));
}

TEST(Reader, SaysThatAProcessWithoutAnEndIsNotRunningWhenItIsGone) {
  TraceBuilder trace;
  trace.header().end = static_cast<std::uint32_t>(format::End::running);
  trace.header().pid = static_cast<std::uint32_t>(getpid());  // lives, but does not map this file
  trace.thread("main", 100);
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  EXPECT_EQ(reader.process().end, format::End::running);
  EXPECT_FALSE(reader.process().running);
  EXPECT_EQ(reader.process().end_tick, std::nullopt);
}

TEST(Reader, SeesThatTheProcessRunsWhichMapsTheTrace) {
  TraceBuilder trace;
  trace.header().end = static_cast<std::uint32_t>(format::End::running);
  trace.header().pid = static_cast<std::uint32_t>(getpid());
  trace.thread("main", 100);
  TemporaryFile file(trace.bytes());
  const int descriptor = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  void* mapped = mmap(nullptr, format::kPageBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_TRUE(Reader(file.path()).process().running);
  // The same pid, but of a process that started at another time.
  trace.header().start_jiffies = 1;
  file.write(trace.bytes());
  EXPECT_FALSE(Reader(file.path()).process().running);
  munmap(mapped, format::kPageBytes);
}

TEST(Reader, TakesWhatIsBeingWrittenForNoDamage) {
  // A running process: its newest chunk is reserved, its header there, its words still on their way.
  TraceBuilder trace;
  trace.header().end = static_cast<std::uint32_t>(format::End::running);
  trace.header().pid = static_cast<std::uint32_t>(getpid());
  trace.thread("main", 100).stamp(5).malloc(0x1000, 8);
  std::string bytes = trace.bytes() + sealed_chunk(1, 6, std::vector<std::uint64_t>(100, format::kLapBit | 0x10));
  bytes.resize(bytes.size() - 512);
  const std::uint64_t append_at = bytes.size() + 512;
  std::memcpy(&bytes[offsetof(format::FileHeader, append_at)], &append_at, sizeof append_at);
  const TemporaryFile file(bytes);
  const int descriptor = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  void* mapped = mmap(nullptr, format::kPageBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  ASSERT_NE(mapped, MAP_FAILED);
  const Reader reader(file.path());
  EXPECT_TRUE(reader.process().running);
  EXPECT_THAT(reasons(reader), ElementsAre());
  munmap(mapped, format::kPageBytes);
}

// ---- damage of every kind ----------------------------------------------------------------------------------------
TEST(Reader, ListsTheDamageOfATraceCutAnywhere) {
  const std::string whole = small_trace().bytes();
  TemporaryFile file(whole);
  std::uint64_t complete = 0;
  for (std::size_t length = 0; length < whole.size(); length++) {
    ASSERT_EQ(truncate(file.path().c_str(), static_cast<off_t>(0)), 0);
    file.write(std::string_view(whole).substr(0, length));
    if (length < format::kPageBytes) {
      ASSERT_NE(why_unreadable(file.path()), "readable") << length;
      length += 60;  // nothing changes between these
      continue;
    }
    const Reader reader(file.path());
    run_all(reader);
    complete += reader.damage().empty();
  }
  // Nothing is missing only where padding, or a whole chunk whose loss cannot be seen, was cut off.
  EXPECT_LT(complete, whole.size() / 2);
}

TEST(Reader, SurvivesEveryByteFlipped) {
  const std::string whole = small_trace().bytes();
  TemporaryFile file(whole);
  const std::size_t staging = first_ring(whole);
  std::uint64_t silent = 0;
  for (std::size_t at = 0; at < whole.size(); at++) {
    if (at > sizeof(format::FileHeader) && at < format::kPageBytes - 1) continue;  // reserved
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    file.write(bytes);
    try {
      const Reader reader(file.path());
      run_all(reader);
      // Sealed chunks tell of every flip in them (padding aside).
      if (at >= staging + 2 * 128) silent += reader.damage().empty();
    } catch (const Unreadable&) {
      EXPECT_LT(at, 12u) << "only magic and version make a trace unreadable";
    }
  }
  EXPECT_LT(silent, 64u * 12) << "padding of the chunks";
}

TEST(Reader, SurvivesEveryBitOfAChunkHeaderAndOfASlotFlipped) {
  const std::string whole = small_trace().bytes();
  TemporaryFile file(whole);
  const std::size_t slots = first_ring(whole) - format::kPageBytes;
  for (const std::size_t from : {std::size_t{format::kPageBytes}, slots, slots + 64, slots + 128})
    for (std::size_t bit = 0; bit < 64 * 8; bit++) {
      std::string bytes = whole;
      bytes[from + bit / 8] = static_cast<char>(bytes[from + bit / 8] ^ (1 << bit % 8));
      file.write(bytes);
      const Reader reader(file.path());
      run_all(reader);
    }
}

TEST(Clock, IsALineThroughTwoPairsAndSaneWhereThereIsOne) {
  format::FileHeader header{};
  header.tick_kind = format::TickKind::nanosecond;
  EXPECT_DOUBLE_EQ(trace::Clock(header).seconds(1'500'000'000), 1.5);
  header.tick_kind = format::TickKind::tsc4;
  EXPECT_DOUBLE_EQ(trace::Clock(header).seconds(625'000'000), 1.0) << "2.5 GHz assumed";
  header.pairs[0] = {0, 1'000'000'000};
  header.pairs[1] = {750'000'000, 2'000'000'000};
  EXPECT_DOUBLE_EQ(trace::Clock(header).seconds(750'000'000), 1.0);
  EXPECT_EQ(trace::Clock(header).ticks(2.0), 1'500'000'000u);
  header.pairs[1] = {750'000'000, 1'000'000'000};
  EXPECT_DOUBLE_EQ(trace::Clock(header).seconds(625'000'000), 1.0);
  header.pairs[1] = {1, ~0ull};
  EXPECT_DOUBLE_EQ(trace::Clock(header).seconds(625'000'000), 1.0);
  EXPECT_EQ(trace::Clock(header).ticks(-1.0), 0u);
  EXPECT_EQ(trace::Clock(header).ticks(1e300), 9'200'000'000'000'000'000u);
}

}  // namespace
}  // namespace heapspy::test
