// The marks that the program's threads left in their streams (heapspy_mark). Memory: a program may mark in a loop, so the first
// kMarksKept are kept and the others counted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/reader.h"

namespace heapspy::model {

inline constexpr std::size_t kMarksKept = 10'000;

class Marks final : public trace::Observer {
 public:
  const std::vector<trace::Mark>& kept() const { return kept_; }
  std::uint64_t left_out() const { return left_out_; }

  void marked(trace::ThreadId thread, std::string_view text, trace::Tick tick) override {
    keep({tick, thread, std::string(text)});
  }
  void recording_switched(trace::ThreadId thread, bool on, trace::Tick tick) override {
    keep({tick, thread, "", on ? trace::Mark::Kind::resumed : trace::Mark::Kind::paused});
  }

 private:
  void keep(trace::Mark mark) {
    if (kept_.size() < kMarksKept)
      kept_.push_back(std::move(mark));
    else
      left_out_++;
  }

  std::vector<trace::Mark> kept_;
  std::uint64_t left_out_ = 0;
};

}  // namespace heapspy::model
