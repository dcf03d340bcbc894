// How fast traces are read and merged, and how that grows with their length.
//
//   Decode      words to events, one thread, nothing else
//   Replace     the timeline over one thread that replaces blocks of a live set at random (as workload w2)
//   Pass        the timeline over threads that replace blocks in arrays which they pass round (as w3): ordering is at work
//   Growth      Replace and Pass at 1, 3, 10 and 30 million events: the exponent e of time ~ events^e
//
// The observer counts and does nothing else. Traces are made beforehand, into a temporary folder, and removed at the end.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "analyzer/trace/reader.h"
#include "analyzer/trace/thread_cursor.h"
#include "analyzer/trace/timeline.h"
#include "tests/support/trace_builder.h"

namespace {

using namespace heapspy;

constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::uint64_t kTicksPerEvent = 50;  // nanoseconds
constexpr std::uint64_t kEventsPerStamp = 32;

// A thread that knows when its next stamp is due.
struct Stamped {
  test::ThreadBuilder& thread;
  std::uint64_t since = kEventsPerStamp;
  test::ThreadBuilder& at(trace::Tick now) {
    if (since++ >= kEventsPerStamp) {
      thread.stamp(now);
      since = 1;
    }
    return thread;
  }
};

void make_replace(test::TraceBuilder& trace, std::uint64_t events) {
  Stamped main{trace.thread("main", 100)};
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> blocks(200'000);
  trace::Tick now = 0;
  std::uint64_t fresh = 0x10000000;
  for (std::uint64_t& block : blocks) main.at(now += kTicksPerEvent).malloc(block = fresh += 64, 48);
  for (std::uint64_t event = blocks.size(); event < events; event += 2) {
    std::uint64_t& block = blocks[random() % blocks.size()];
    std::uint64_t& other = blocks[random() % blocks.size()];
    std::swap(block, other);  // addresses come back for other blocks
    main.at(now += kTicksPerEvent).free(block);
    main.at(now += kTicksPerEvent).malloc(block, 16 + random() % 40);
  }
}

void make_pass(test::TraceBuilder& trace, std::uint64_t events) {
  constexpr std::size_t kThreads = 4, kBlocks = 10'000, kRounds = 20;
  std::mt19937_64 random(2);
  std::vector<Stamped> threads;
  std::vector<std::vector<std::uint64_t>> arrays(kThreads);
  for (std::size_t i = 0; i < kThreads; i++) {
    threads.push_back({trace.thread("worker", static_cast<std::uint32_t>(100 + i))});
    for (std::size_t j = 0; j < kBlocks; j++) arrays[i].push_back(0x10000000 * (i + 1) + j * 64);
  }
  trace::Tick now = 0;
  for (std::size_t j = 0; j < kBlocks; j++)
    for (std::size_t i = 0; i < kThreads; i++) threads[i].at(now += kTicksPerEvent).malloc(arrays[i][j], 32);
  for (std::uint64_t event = kThreads * kBlocks, round = 0; event < events; round++)
    for (std::uint64_t end = event + events / kRounds; event < end;)
      for (std::size_t i = 0; i < kThreads; i++, event += 2) {
        const std::uint64_t block = arrays[(i + round) % kThreads][random() % kBlocks];
        threads[i].at(now += kTicksPerEvent).free(block);
        threads[i].at(now += kTicksPerEvent).malloc(block, 16 + random() % 40);
      }
}

// Traces by kind and length, made when first asked for.
class Traces {
 public:
  ~Traces() {
    for (const auto& [key, path] : made_) unlink(path.c_str());
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  const std::string& get(void (*make)(test::TraceBuilder&, std::uint64_t), std::uint64_t events) {
    std::string& path = made_[{make, events}];
    if (!path.empty()) return path;
    if (folder_.empty()) {
      const char* parent = getenv("TMPDIR");
      folder_ = std::string(parent && *parent ? parent : "/tmp") + "/heapspy-bench-XXXXXX";
      if (!mkdtemp(folder_.data())) std::abort();
    }
    path = folder_ + "/" + std::to_string(made_.size()) + ".hspy";
    test::TraceBuilder trace;
    make(trace, events);
    trace.write(path);
    return path;
  }

 private:
  std::string folder_;
  std::map<std::pair<void (*)(test::TraceBuilder&, std::uint64_t), std::uint64_t>, std::string> made_;
} traces;

struct Counting : trace::Observer {
  std::uint64_t calls = 0;
  void allocated(const trace::Block&, trace::Tick) override { calls++; }
  void released(const trace::Block&, trace::ThreadId, trace::Release, trace::Tick) override { calls++; }
};

std::uint64_t run_timeline(const std::string& path) {
  const trace::Reader reader(path);
  Counting counting;
  const trace::TimelineCounts counts = trace::Timeline(reader, {&counting}).run();
  benchmark::DoNotOptimize(counting.calls);
  return counts.events;
}

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void Decode(benchmark::State& state) {
  const std::string& path = traces.get(make_replace, 4 * kMillion);
  std::uint64_t events = 0;
  for (auto _ : state) {
    const trace::Reader reader(path);
    for (const trace::ThreadStream& stream : reader.threads()) {
      trace::ThreadCursor cursor(reader, stream, {});
      for (cursor.open(); !cursor.done(); cursor.advance()) events += cursor.event().counts;
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
}
BENCHMARK(Decode)->Unit(benchmark::kMillisecond);

void timeline(benchmark::State& state, void (*make)(test::TraceBuilder&, std::uint64_t)) {
  const auto events = static_cast<std::uint64_t>(state.range(0)) * kMillion;
  const std::string& path = traces.get(make, events);
  std::uint64_t done = 0;
  for (auto _ : state) done += run_timeline(path);
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
  state.SetComplexityN(state.range(0));
}
void Replace(benchmark::State& state) { timeline(state, make_replace); }
void Pass(benchmark::State& state) { timeline(state, make_pass); }
BENCHMARK(Replace)->Arg(1)->Arg(3)->Arg(10)->Arg(30)->Unit(benchmark::kMillisecond)->Complexity();
BENCHMARK(Pass)->Arg(1)->Arg(3)->Arg(10)->Arg(30)->Unit(benchmark::kMillisecond)->Complexity();

// A straight line through log(time) over log(events); the best of three runs of each length.
void growth(benchmark::State& state, void (*make)(test::TraceBuilder&, std::uint64_t)) {
  for (auto _ : state) {
    double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
    for (const std::uint64_t events : {kMillion, 3 * kMillion, 10 * kMillion, 30 * kMillion}) {
      const std::string& path = traces.get(make, events);
      double best = 1e9;
      for (int i = 0; i < 3; i++) {
        const double begin = processor_seconds();
        run_timeline(path);
        best = std::min(best, processor_seconds() - begin);
      }
      const double x = std::log(static_cast<double>(events)), y = std::log(best);
      n++, sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
    }
    state.counters["exponent"] = (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x);
  }
}
void GrowthReplace(benchmark::State& state) { growth(state, make_replace); }
void GrowthPass(benchmark::State& state) { growth(state, make_pass); }
BENCHMARK(GrowthReplace)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(GrowthPass)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
