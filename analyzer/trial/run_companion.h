// What happens beside a measured run: RSS is sampled, the output is looked at, a load runs, and a program that does not end by
// itself is ended.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace heapspy::trial {

struct RssPoint {
  double time_s = 0;
  std::uint64_t rss_bytes = 0;
};

struct CompanionPlan {
  std::optional<double> sample_s;  // between two samples of RSS; nullopt: none are taken
  std::optional<double> until_s;   // the program gets SIGTERM then …
  std::string until_text;          // … or when this text is in its output; "" neither
  std::vector<std::string> load;   // command run beside it; empty: none. Without an until the program ends when this does
  bool show_output = false;        // pass the program's output on to stderr, where it goes through us
  bool wants_output() const { return !until_text.empty(); }
  bool any() const { return sample_s || until_s || wants_output() || !load.empty(); }
};

class RunCompanion {
 public:
  // A program that does not end so long after SIGTERM gets SIGKILL.
  static constexpr std::chrono::seconds kPatience{10};

  explicit RunCompanion(const CompanionPlan& plan) : plan_(plan) {}
  ~RunCompanion() { finish(); }
  RunCompanion(const RunCompanion&) = delete;
  RunCompanion& operator=(const RunCompanion&) = delete;

  // Where the program's output is to go; -1: where it would. Before the program starts.
  int output_end();
  // The program runs. `before_end` is called by another thread, before SIGTERM is sent. Throws process::StartError (the load).
  void begin(pid_t program, std::function<void()> before_end);
  // The program has ended: ends the load, stops looking.
  void finish();

  // After finish().
  const std::vector<RssPoint>& curve() const { return curve_; }
  bool ended_it() const { return ended_it_; }

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void end_program();
  void read_output();

  const CompanionPlan& plan_;
  pid_t program_ = 0, load_ = 0;
  int output_[2] = {-1, -1}, stop_[2] = {-1, -1}, load_exit_ = -1;
  std::function<void()> before_end_;
  std::string seen_;  // the end of the output so far, in which the text may begin
  std::vector<RssPoint> curve_;
  bool ended_it_ = false;
  Clock::time_point begin_, kill_at_;
  std::thread thread_;
};

}  // namespace heapspy::trial
