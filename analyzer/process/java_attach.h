// HotSpot's attach protocol, as jcmd speaks it: a JVM that is asked by a file and SIGQUIT listens on a socket and runs
// diagnostic commands by a thread of its own.
#pragma once
#include <chrono>
#include <string>

#include "analyzer/process/live_process.h"

namespace heapspy::process {

struct JavaAnswer {
  bool done = false;  // else `text` says why not
  std::string text;   // of the command, or of its error
  double seconds = 0;
};

// Whether the process is a JVM that would listen: it catches SIGQUIT and attaching is not switched off.
bool listens_to_attach(const LiveProcess&);

// Runs a diagnostic command like "System.trim_native_heap". Throws TargetError (refused) where the JVM does not answer in time
// or belongs to another user.
JavaAnswer java_command(const LiveProcess&, const std::string& command, std::chrono::milliseconds patience);

}  // namespace heapspy::process
