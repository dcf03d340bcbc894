// Runs a program once per setting and says what each setting changed: what `heapspy compare` shows.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trial/measured_run.h"
#include "analyzer/trial/settings.h"

namespace heapspy::trial {

struct ComparePlan {
  std::vector<std::string> command;
  std::vector<Setting> settings;
  unsigned repeat = 1;
  process::ChildOutput output = process::ChildOutput::discard;
  CompanionPlan companion{};
  // Where a trace of one more run of each setting is kept; "" nowhere. Needs the recorder's path.
  std::string record_folder, recorder;
  // Called before each run; may be empty.
  std::function<void(std::size_t run, std::size_t runs, const Setting&, unsigned repeat)> progress;
};

struct Try {
  unsigned repeat = 1;  // from 1
  MeasuredRun run;
};

// Middle values over the repeats of one setting.
struct Medians {
  int exit_status = 0;  // the first that is not 0, else 0
  std::optional<std::uint64_t> peak_rss_bytes, end_rss_bytes;
  double wall_s = 0, cpu_s = 0;
  std::optional<double> lock_wait_s;
  std::uint64_t minor_faults = 0, voluntary_switches = 0;
};

struct SettingResult {
  Setting setting;
  Recipe recipe;
  std::vector<Try> tries;  // empty where the recipe is unavailable
  Medians medians;
  bool in_effect = true;  // false: its library was not seen in the program
};

struct Comparison {
  std::vector<std::string> command;
  std::vector<SettingResult> settings;  // in the order asked for
  std::string advice;
};

// Runs every setting once, then again for each repeat (A B A B, so that a machine that slows down hurts all alike).
// A stdin that can be rewound is rewound before each run. Throws process::StartError.
Comparison compare(const ComparePlan& plan);

Medians medians_of(const std::vector<Try>& tries);
// From measured figures only: what the setting with the lowest peak saves and costs against `default` (or the first).
std::string advise(const std::vector<SettingResult>& settings);

// LD_PRELOAD without any libheapspy.so: trials are not recorded.
std::string without_recorder(const std::string& preload);

}  // namespace heapspy::trial
