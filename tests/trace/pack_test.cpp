#include "analyzer/trace/pack.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "analyzer/trace/thread_cursor.h"
#include "tests/support/trace_builder.h"
#include "tests/trace/event_log.h"

namespace heapspy::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using trace::NotPacked;
using trace::Reader;

// A folder on a disk, for a memfd is always open for writing.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "heapspy-pack-" + std::to_string(getpid())) { fs::create_directory(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  std::string path_;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> everything(const std::string& path) {
  const Reader reader(path);
  EventLog log(true);
  trace::Timeline(reader, {&log}).run();
  for (const trace::Damage& damage : reader.damage()) log.lines.push_back("damage: " + damage.reason);
  log.lines.push_back(fmt::format("{} lost, exe {}", reader.lost_events(), reader.process().exe));
  return log.lines;
}

// Two threads, chunks, rings with something in them, a gap, a snapshot, long records across chunk borders.
TraceBuilder varied_trace(std::uint64_t ring_tail = 50, std::uint64_t blocks = 2000) {
  TraceBuilder::Options options;
  options.chunk_words = 61;
  options.ring_tail_words = ring_tail;
  options.ring_bytes = 1024;
  options.slots = 2;
  options.ring_start = 24;
  TraceBuilder trace(options);
  trace.process(format::ProcessTag::exe, "/usr/bin/example");
  auto& main = trace.thread("main", 100, 5, 0x7ffd12345678);
  auto& worker = trace.thread("worker", 101, 50);
  for (std::uint64_t i = 0; i < blocks; i++) {
    if (i % 30 == 0) main.stamp(100 + i * 10);
    if (i % 7 == 0)
      main.aligned(0x7f0000000000 + i * 4096, 1 << 20);
    else
      main.malloc(0x10000 + i * 32, 20 + i);
    if (i == blocks / 2) main.lose(13, 12);
  }
  main.mark("half way");
  worker.stamp(50000);
  for (std::uint64_t i = 1; i < blocks * 9 / 20; i++) worker.free(0x10000 + i * 32);
  worker.failed(format::Origin::malloc, 1ull << 50).end();
  trace::Snapshot snapshot;
  snapshot.begin = 70000;
  snapshot.status_text = "Name:\tx\n";
  trace.snapshot(snapshot);
  return trace;
}

TEST(Pack, LeavesNothingOutAndKeepsTheOrder) {
  const Folder folder;
  for (const std::uint64_t ring_tail : {0, 50, 128}) {
    const std::string plain = folder.write("plain.hspy", varied_trace(ring_tail).bytes());
    const trace::Packed packed = trace::pack_trace(plain, folder.file("packed.hspy"));
    EXPECT_EQ(packed.bytes_before, fs::file_size(plain));
    EXPECT_EQ(packed.bytes_after, fs::file_size(folder.file("packed.hspy")));
    EXPECT_LT(packed.bytes_after, packed.bytes_before / 2);
    EXPECT_EQ(packed.events, 2000u + 899 + 1);
    EXPECT_EQ(everything(folder.file("packed.hspy")), everything(plain));
  }
}

TEST(Pack, InPlaceKeepsModeAndTimeAndLeavesNoOtherFile) {
  const Folder folder;
  const std::string path = folder.write("x.hspy", varied_trace().bytes());
  const auto before = everything(path);
  const auto written = fs::last_write_time(path);
  trace::pack_trace(path, path);
  EXPECT_EQ(everything(path), before);
  EXPECT_EQ(fs::last_write_time(path), written);
  struct stat status {};
  stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Pack, OfAPackedTraceIsHarmless) {
  const Folder folder;
  const std::string path = folder.write("x.hspy", varied_trace().bytes());
  const auto before = everything(path);
  trace::pack_trace(path, path);
  const auto once = fs::file_size(path);
  trace::pack_trace(path, path);
  EXPECT_EQ(everything(path), before);
  EXPECT_EQ(fs::file_size(path), once);
  trace::PackSettings keep;
  keep.keep_from_words = 1;
  trace::pack_trace(path, path, keep);
  EXPECT_EQ(everything(path), before);
}

std::string why_not(const std::string& path, NotPacked::Why expected) {
  try {
    trace::pack_trace(path, path);
  } catch (const NotPacked& why) {
    EXPECT_EQ(why.why, expected);
    return why.what();
  }
  return "packed";
}

TEST(Pack, RefusesATraceThatSomebodyWrites) {
  const Folder folder;
  const std::string path = folder.write("x.hspy", varied_trace().bytes());
  const int writer = open(path.c_str(), O_RDWR);
  ASSERT_TRUE(trace::is_being_written(path));
  EXPECT_EQ(why_not(path, NotPacked::Why::running),
            path + ": process 4242 still writes it; pack it when the process has ended");
  close(writer);
  EXPECT_FALSE(trace::is_being_written(path));
}

TEST(Pack, RefusesDamageThatItWouldHide) {
  const Folder folder;
  const std::string whole = varied_trace(0).bytes();
  for (std::size_t at = 3 * format::kPageBytes; at < whole.size(); at += 501) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    const std::string path = folder.write("x.hspy", bytes);
    if (Reader reader(path); reader.damage().size() == 1 && everything(path) == everything(folder.write("y.hspy", whole)))
      continue;
    EXPECT_EQ(why_not(path, NotPacked::Why::damaged),
              path + ": is damaged, and packing would hide that; the trace is as it was");
    EXPECT_EQ(content_of(path), bytes);
  }
}

TEST(Pack, LeavesTheTraceAsItIsWhereThereIsNoRoom) {
  const Folder folder;
  const std::string bytes = varied_trace().bytes();
  const std::string path = folder.write("x.hspy", bytes);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{6000, 6000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      trace::pack_trace(path, path);
    } catch (const NotPacked& why) {
      _exit(why.why == NotPacked::Why::unwritable &&
            std::string(why.what()).find("the trace is as it was") != std::string::npos);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(content_of(path), bytes);
  EXPECT_EQ(folder.files(), 1u);
}

// ---- reading it --------------------------------------------------------------------------------------------------
TEST(Reader, SurvivesEveryByteOfPackedWordsFlipped) {
  const Folder folder;
  const std::string plain = folder.write("plain.hspy", varied_trace(50, 120).bytes());
  trace::pack_trace(plain, folder.file("packed.hspy"));
  const std::string whole = content_of(folder.file("packed.hspy"));
  TemporaryFile file(whole);
  std::uint64_t silent = 0;
  for (std::size_t at = format::kPageBytes; at < whole.size(); at++) {
    if (whole[at] == 0) continue;  // padding, most of it
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    file.write(bytes);
    const Reader reader(file.path());
    EventLog log;
    log.reallocs_overlap = true;
    trace::Timeline(reader, {&log}).run();
    silent += reader.damage().size() == 1;  // the gap
  }
  EXPECT_LT(silent, 64u * 2) << "slots";
}

TEST(Reader, SurvivesAPackedTraceCutAnywhere) {
  const Folder folder;
  const std::string plain = folder.write("plain.hspy", varied_trace().bytes());
  trace::pack_trace(plain, folder.file("packed.hspy"));
  const std::string whole = content_of(folder.file("packed.hspy"));
  TemporaryFile file;
  for (std::size_t size = format::kPageBytes; size + 64 < whole.size(); size += 23) {
    file.write(whole.substr(0, size));
    const Reader reader(file.path());
    EventLog log;
    trace::Timeline(reader, {&log}).run();
  }
}

// A stream with what a collector saw of it.
TEST(ThreadCursor, NarrowsWindowsBySightings) {
  const std::uint64_t words[] = {
      8 | 1000 << 8,   2 | 8 << 3 | 0x1000ull << 16, 2 | 8 << 3 | 0x2000ull << 16, 2 | 8 << 3 | 0x3000ull << 16,
      8 | 900000 << 8, 1 | 0x1000ull << 16};
  // After two events somebody looked, and again, long before the third came.
  const trace::Sighting sightings[] = {{3, 1200, 500000}};
  trace::WordPacker packer(1);
  const std::string payload(packer.pack(words, 0, sightings));
  TraceBuilder builder;
  builder.header().pairs[1] = {1000000, builder.header().origin + 1000000};
  std::string bytes = builder.bytes();
  format::ChunkHeader header{};
  header.magic = format::kChunkMagic;
  header.kind = format::ChunkKind::packed;
  header.version = 1;
  header.payload_bytes = payload.size();
  header.thread = 1;
  header.tid = 100;
  header.first_tick = 1000;
  header.payload_checksum = format::checksum(payload.data(), payload.size());
  header.header_checksum = format::checksum(&header, 56);
  bytes.resize(format::align_up(bytes.size(), 64));
  bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += payload;
  bytes.resize(format::align_up(bytes.size(), 64));
  const TemporaryFile file(bytes);
  const Reader reader(file.path());
  ASSERT_EQ(reader.threads().size(), 1u);
  trace::ThreadCursor cursor(reader, reader.threads()[0], {});
  ASSERT_TRUE(cursor.open());
  const std::pair<trace::Tick, trace::Tick> windows[] = {
      {1000, 1200}, {1000, 1200}, {500000, 900000}, {900000, trace::kEndless}};
  for (const auto& [low, high] : windows) {
    ASSERT_FALSE(cursor.done());
    EXPECT_EQ(cursor.low(), low);
    EXPECT_EQ(cursor.high(), high);
    cursor.advance();
  }
  EXPECT_TRUE(cursor.done());
}

}  // namespace
}  // namespace heapspy::test
