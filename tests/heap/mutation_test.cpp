// Parsers of what comes from other processes, on input with bytes changed at random: they end, read nothing outside their input
// (sanitizers see that) and invent nothing. Seeded; HEAPSPY_FUZZ_SECONDS makes it longer (scripts/fuzz-forensics).
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "analyzer/process/core_file.h"
#include "analyzer/process/live_process.h"
#include "analyzer/process/mappings.h"
#include "analyzer/process/quiet_call.h"
#include "analyzer/process/stopped_process.h"
#include "analyzer/process/thread_look.h"
#include "analyzer/report/inspection.h"
#include "analyzer/report/inspection_json.h"
#include "analyzer/report/inspection_text.h"
#include "tests/heap/victim.h"
#include "tests/heap/written_core.h"

namespace heapspy::heap_test {
namespace {

class Mutation : public testing::Test {
 protected:
  Mutation() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    if (const char* seconds = std::getenv("HEAPSPY_FUZZ_SECONDS")) {
      seconds_ = std::atof(seconds);
      random_.seed(std::random_device()());
    }
  }
  ~Mutation() override { std::filesystem::remove_all(folder_); }

  // Calls each(round) `rounds` times, or as long as the variable says.
  template <typename Each>
  void rounds(int rounds, Each each) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; seconds_ > 0 || i < rounds; i++) {
      if (seconds_ > 0 && std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds_) break;
      each(i);
    }
  }
  std::uint64_t below(std::uint64_t limit) { return limit ? random_() % limit : 0; }

  // Words to values that are often at a limit, bits, and whole pieces.
  void mutate(std::string& bytes, std::uint64_t from, std::uint64_t to) {
    static constexpr std::uint64_t kValues[] = {0,          1,          7,          16,    0x21,       0x7fffffff,
                                                0xffffffff, 1ull << 32, 1ull << 47, ~0ull, ~0ull << 12};
    for (std::uint64_t count = 1 + below(6); count > 0 && to > from + 8; count--) {
      const std::uint64_t at = (from + below(to - from - 8)) & (below(4) ? ~7ull : ~0ull);
      switch (below(4)) {
        case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
        case 1: std::memcpy(bytes.data() + at, &kValues[below(std::size(kValues))], 8); break;
        case 2: std::memcpy(bytes.data() + at, bytes.data() + ((from + below(to - from - 8)) & ~7ull), 8); break;
        default: {
          std::uint64_t word;
          std::memcpy(&word, bytes.data() + at, 8);
          word += (below(64) - 32) * 8;
          std::memcpy(bytes.data() + at, &word, 8);
        }
      }
    }
  }

  std::string folder_;
  double seconds_ = 0;
  std::mt19937_64 random_{20251130};
};

TEST_F(Mutation, OfACoreAnywhereIsReadOrRefusedAndShown) {
  if (!may_trace()) GTEST_SKIP() << "this process may not stop others";
  const Victim victim("mixed", 2);
  const std::string path = folder_ + "/core";
  const std::string whole = [&] {
    const process::LiveProcess target(victim.pid());
    const process::StoppedProcess stopped(target);
    return written_core(stopped, victim.pid());
  }();
  int read = 0;
  rounds(40, [&](int round) {
    std::string mutant = whole;
    // The tables at its beginning, or anything; now and then cut.
    const std::uint64_t end = round % 3 == 0 ? std::min<std::uint64_t>(whole.size(), 8192) : whole.size();
    for (std::uint64_t times = round % 3 == 0 ? 1 : 50; times > 0; times--) mutate(mutant, 0, end);
    if (below(8) == 0) mutant.resize(below(mutant.size()));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << mutant;
    try {
      const report::Inspection inspection = report::inspect_core(process::CoreFile(path));
      const report::InspectionDetail detail{true, false, std::nullopt};
      EXPECT_FALSE(
          report::inspection_json(inspection, detail).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty());
      for (const std::string& line : report::inspection_lines(inspection, {})) EXPECT_LE(line.size(), 400u);
      read++;
    } catch (const process::CoreError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  });
  EXPECT_GT(read, 0);
}

TEST_F(Mutation, OfTheTextsOfProcIsParsedWhateverTheyHold) {
  const process::LiveProcess self(::getpid());
  const std::string texts[] = {self.text("status"), self.text("smaps_rollup"), self.text("smaps").substr(0, 20000),
                               self.text("stat"), "61 0x2bd 0x7ffd 0x0 0x0 0x0 0x0 0x7ffdba6c9e58 0x7f1b3f1d2a4d\n"};
  rounds(500, [&](int round) {
    std::string text = texts[static_cast<std::size_t>(round) % std::size(texts)];
    mutate(text, 0, text.size());
    if (below(3) == 0) text.resize(below(text.size()));
    (void)process::parse_status(text);
    (void)process::parse_rollup(text);
    (void)process::parse_stack_pointer(text);
    (void)process::parse_call_number(text);
    (void)process::parse_thread_stat(text, 100);
    for (const process::Mapping& each : process::parse_mappings(text).mappings) EXPECT_LT(each.start, each.end);
  });
}

}  // namespace
}  // namespace heapspy::heap_test
