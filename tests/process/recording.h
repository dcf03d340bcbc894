// Runs a program under the recorder in a folder of its own and gives what it printed, how it ended and its traces.
//
//   Recording run({.command = {victim("known_counts")}});
//   EXPECT_EQ(run.finish().exit_status, 0);
//   const report::Report report = run.report();
//
// The folder and everything in it goes away with the Recording; a process that still runs then is killed. Not
// thread-safe. A program that passes its time limit is killed and the test fails.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::test {

struct Launch {
  std::vector<std::string> command = {};  // the first is looked for in PATH
  bool recorded = true;
  bool to_traces_folder = true;                   // HEAPSPY_OUT=FOLDER/traces/; else it is left to `environment`
  std::vector<std::string> preload_before = {};   // libraries in LD_PRELOAD before the recorder
  std::vector<std::string> preload_beneath = {};  // … and after it
  // Added to PATH, HOME and LC_ALL=C, which is all that a program gets from here. "@" at the start of a value stands for the
  // run's folder.
  std::vector<std::pair<std::string, std::string>> environment = {};
  bool without_environment = false;        // only LD_PRELOAD (and what `environment` says)
  bool talks = false;                      // stdin and stdout are pipes: read_line, write_line
  std::function<void()> before_exec = {};  // in the child, in its folder
  std::function<void()> in_folder = {};    // in the test, before the start, with the folder as working folder
  double limit_s = 100;
};

// How it ended.
struct Outcome {
  int exit_status = -1;  // -1: by a signal
  int signal = 0;
  std::string out, err;
};
bool operator==(const Outcome&, const Outcome&);
std::ostream& operator<<(std::ostream&, const Outcome&);

class Recording {
 public:
  explicit Recording(Launch);  // starts it
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_; }  // its working folder
  std::string file(const std::string& name) const { return folder_ + "/" + name; }

  // Launch::talks. Without the newline; what was read before the end of the output is empty.
  std::string read_line();
  void write_line(const std::string&);
  // Everything that it will still print (until it closes stdout).
  std::string read_rest();

  const Outcome& finish();  // waits, once
  // The most that it (or a process it waited for) ever had in RAM. After finish().
  std::uint64_t peak_rss_bytes() const { return peak_rss_bytes_; }

  // After finish(). Paths of *.hspy in FOLDER/traces (and FOLDER, where HEAPSPY_OUT was left to the test), sorted.
  std::vector<std::string> traces() const;
  std::string trace() const;                                // the only one; the test fails if there are more or none
  report::Report report() const;                            // of the only one
  report::Report report_in(const std::string& name) const;  // of this file in the folder
  report::Report report_of(pid_t pid) const;                // of this process; the test fails if there is not exactly one
  std::vector<report::Report> reports() const;              // without call stacks

 private:
  int wait_for_end();

  Launch launch_;
  std::string folder_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string unread_;
  std::uint64_t peak_rss_bytes_ = 0;
  std::optional<Outcome> outcome_;
};

// Runs it with and without the recorder and expects the same output, exit status and signal. Gives the recorded run.
// `recorded` is whether the program is recorded for the second time, or only has the library loaded.
struct Compared {
  Outcome plain;
  std::uint64_t plain_peak_rss_bytes = 0;
  std::unique_ptr<Recording> recording;
};
Compared expect_unchanged(Launch);

// The only thread of that name; the test fails if there is none or more than one.
report::ThreadReport thread_named(const report::Report&, const std::string& name);
// How often an entry point was called (TotalsReport::calls).
std::uint64_t calls(const report::Report&, const std::string& entry_point);
// Everything in the trace was read and nothing is missing.
void expect_whole(const report::Report&);

// Paths from the build.
std::string victim(const std::string& name);
std::string victim_library(const std::string& name);  // "x" is libx.so
std::string victim_source(const std::string& name);   // "Spawns.java"
std::string recorder_library();
std::string heapspy_program();

// Where a program of this machine is; empty where it is not installed.
std::string installed(const std::string& program);
// The first of these files that exists in the library folders of this machine; empty where none does.
std::string installed_library(const std::vector<std::string>& names);

std::string content_of(const std::string& path);

// A program to its end, without the recorder.
inline Outcome run_plain(std::vector<std::string> command, std::vector<std::pair<std::string, std::string>> environment = {}) {
  return Recording({.command = std::move(command), .recorded = false, .environment = std::move(environment)}).finish();
}

}  // namespace heapspy::test
