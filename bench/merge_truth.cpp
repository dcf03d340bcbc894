// How often the order that the analyzer finds without a clock is wrong: a trace that was made with libtruth.so beneath the
// recorder against what that noted (tests/support/merge_truth.h). scripts/bench-merge makes both.
//
// usage: merge_truth TRACE TRUTH_FOLDER [SHOW]     one line of JSON; before it the histories of SHOW wrong addresses
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tests/support/merge_truth.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fputs("usage: merge_truth TRACE TRUTH_FOLDER [SHOW]\n", stderr);
    return 2;
  }
  const heapspy::trace::Reader reader(argv[1]);
  const heapspy::test::MergeTruth found =
      heapspy::test::compare_with_truth(reader, argv[2], argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0, &std::cout);
  std::cout.flush();
  std::printf("{\"events\": %" PRIu64 ", \"threads\": %zu, \"frees\": %" PRIu64 ", \"wrong\": %" PRIu64
              ", \"wrong_thread\": %" PRIu64 ", \"wrong_per_100000\": %.3f, \"reordered_events\": %" PRIu64
              ", \"repaired_events\": %" PRIu64
              ", \"median_error_us\": %.3f, \"p99_error_us\": %.3f, \"worst_error_us\": %.1f, \"unpaired\": %" PRIu64
              ", \"impossible\": %" PRIu64 ", \"lost\": %" PRIu64 "}\n",
              found.counts.events, reader.threads().size(), found.frees, found.wrong, found.wrong_thread,
              found.wrong_per_100000(), found.counts.reordered_events, found.counts.repaired_events, found.median_error_us,
              found.p99_error_us, found.worst_error_us, found.unpaired, found.impossible, reader.lost_events());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "merge_truth: %s\n", error.what());
  return 1;
}
