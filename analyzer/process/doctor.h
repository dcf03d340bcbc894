// Why a process is recorded or is not, and what to change: what `heapspy doctor` says, and `heapspy record` where there is no
// trace.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "analyzer/process/live_process.h"

namespace heapspy::process {

struct Observation {
  enum class Kind {
    ok,    // as it should be
    warn,  // recorded, but not all, or not as one may think
    why,   // for this it is not recorded
  };
  Kind kind = Kind::ok;
  std::string topic;  // "loaded", "first", "allocator", "tunables", "settings", "output", "program", "recording"
  std::string text;
  std::string fix;  // "" where there is nothing to change
};

struct Diagnosis {
  std::vector<Observation> observations;
  bool recorded = false;  // of a process: it is; of a command: it would be
};

// What stands around a check.
struct DoctorPlan {
  std::string library;  // libheapspy.so of this installation; "" where it is not there
  // Has the recorder read these HEAPSPY_… variables, in a program of ours that does nothing: what it says of them, "" where it
  // takes them. Empty: not tried.
  std::function<std::string(const std::vector<std::string>& variables)> try_settings;
  // Has the loader `interpreter` load the library without starting a program: what it says of it, "" where it takes it.
  std::function<std::string(const std::string& interpreter)> try_loading;
  // Names of the tunables of this machine's glibc; empty: not known.
  std::vector<std::string> tunables;
};

Diagnosis examine_process(const LiveProcess& target, const DoctorPlan& plan);
// `environment`: what it would be started with, NAME=VALUE, without what `heapspy record` adds.
Diagnosis examine_command(const std::string& command, const std::vector<std::string>& environment, const DoctorPlan& plan);

// Why calls of such a program would not be seen, though the library could be loaded: "is built with AddressSanitizer …"; "".
// `path`: the file that the kernel would run.
std::string why_not_seen(const std::string& path);

}  // namespace heapspy::process
