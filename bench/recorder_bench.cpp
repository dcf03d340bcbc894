// What one call costs, per entry point. Nothing of heapspy is linked in: run it bare, under the floor and under
// LD_PRELOAD=libheapspy.so, and subtract. scripts/bench-recorder does that, interleaved.
//
// Each benchmark varies one thing, and counts a call as one event (`items_per_second`).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

void report_events(benchmark::State& state, std::int64_t events_per_iteration) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * events_per_iteration);
}

// The thread cache's best case at small sizes; beyond 1032 bytes the arena itself answers.
void malloc_free(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* block = std::malloc(size);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  report_events(state, 2);
}
BENCHMARK(malloc_free)->Arg(16)->Arg(64)->Arg(512)->Arg(4096);

void calloc_free(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* block = std::calloc(1, size);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  report_events(state, 2);
}
BENCHMARK(calloc_free)->Arg(64)->Arg(512);

// Grows and shrinks one block inside its chunk: the realloc itself costs next to nothing.
void realloc_in_place(benchmark::State& state) {
  void* block = std::malloc(256);
  std::size_t size = 256;
  for (auto _ : state) {
    size ^= 8;  // 256, 264, 256 …: one chunk holds both
    void* moved = std::realloc(block, size);
    benchmark::DoNotOptimize(moved);
    block = moved;
  }
  std::free(block);
  report_events(state, 1);
}
BENCHMARK(realloc_in_place);

void aligned_alloc_free(benchmark::State& state) {
  for (auto _ : state) {
    void* block = std::aligned_alloc(64, 256);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  report_events(state, 2);
}
BENCHMARK(aligned_alloc_free);

void new_delete(benchmark::State& state) {
  for (auto _ : state) {
    void* block = ::operator new(64);
    benchmark::DoNotOptimize(block);
    ::operator delete(block);
  }
  report_events(state, 2);
}
BENCHMARK(new_delete);

// A batch of blocks lives at once and is freed in order of allocation: what most programs look like between two peaks.
void batch(benchmark::State& state) {
  std::vector<void*> blocks(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (void*& block : blocks) {
      block = std::malloc(48);
      benchmark::DoNotOptimize(block);
    }
    for (void* block : blocks) std::free(block);
  }
  report_events(state, 2 * state.range(0));
}
BENCHMARK(batch)->Arg(100)->Arg(10000);

void malloc_free_threads(benchmark::State& state) {
  for (auto _ : state) {
    void* block = std::malloc(64);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  report_events(state, 2);
}
BENCHMARK(malloc_free_threads)->Threads(2)->UseRealTime();

}  // namespace
