// A request to the recorder of a running process, with one line for each way in which it can come to nothing.
#pragma once
#include <string_view>

#include "analyzer/process/recorder_link.h"

namespace heapspy::cli {

struct RecorderRequest {
  format::Request request = format::Request::none;
  std::string_view action;  // "a trim": what it is called in those lines
  std::string_view text = {};
  double timeout_s = 10;
};

// What the recorder answered: done or refused. Throws Failure (target_refused) where the target is stopped or does not answer
// in time; nothing was done then.
process::Answer ask_recorder(const process::LiveProcess& target, process::RecorderLink& link, const RecorderRequest& request);

// Throws Failure (target_refused) where the process stands still, by SIGSTOP or a debugger.
void expect_running(const process::LiveProcess& target);

// Throws Failure (target_refused) where the process has ended.
void expect_alive(const process::LiveProcess& target);

}  // namespace heapspy::cli
