#include "analyzer/cli/reading_progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "analyzer/report/printable.h"

namespace heapspy::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(1000);  // before the first line
constexpr auto kPause = std::chrono::milliseconds(200);      // between two

// Erases its line when the last copy of the callback goes, so that nothing is left of it whatever happened.
struct Line {
  std::string name;
  SteadyClock::time_point next = SteadyClock::now() + kPatience;
  bool shown = false;

  ~Line() {
    if (shown) std::fputs("\r\x1b[K", stderr);
  }
  void show(double share) {
    if (SteadyClock::now() < next) return;
    next = SteadyClock::now() + kPause;
    shown = true;
    fmt::print(stderr, "\r\x1b[Kheapspy: reading {} … {:.0f} %", name, share * 100);
    std::fflush(stderr);
  }
};

}  // namespace

std::function<void(double)> reading_progress(const std::string& path) {
  if (isatty(STDERR_FILENO) != 1) return {};
  auto line = std::make_shared<Line>();
  line->name = report::fit(report::printable(path), 60);
  return [line](double share) { line->show(share); };
}

}  // namespace heapspy::cli
