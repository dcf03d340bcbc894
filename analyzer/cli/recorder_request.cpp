#include "analyzer/cli/recorder_request.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>

#include "analyzer/cli/command.h"

namespace heapspy::cli {

void expect_alive(const process::LiveProcess& target) {
  if (!target.alive()) refuse(fmt::format("process {} has ended", target.pid()));
}

void expect_running(const process::LiveProcess& target) {
  const process::Status status = target.status();
  const char state = status.state.value_or('?');
  if (state == 'T') refuse(fmt::format("process {} is stopped; let it go on with kill -CONT {}", target.pid(), target.pid()));
  if (state == 't')  // SIGCONT would not help
    refuse(fmt::format("process {} stands still, held by process {} (a debugger?); let it go on there", target.pid(),
                       status.tracer.value_or(0)));
}

process::Answer ask_recorder(const process::LiveProcess& target, process::RecorderLink& link, const RecorderRequest& request) {
  expect_running(target);
  const bool listener = link.has_listener();
  const auto patience = std::chrono::milliseconds(std::llround(request.timeout_s * 1000));
  if (const auto answer = link.ask(request.request, patience, request.text)) return *answer;
  if (listener)
    refuse(
        fmt::format("the recorder of process {} did not answer within {:g} s; nothing was changed, --timeout gives it longer",
                    target.pid(), request.timeout_s));
  refuse(fmt::format(
      "process {} has one thread, which made no allocation within {:g} s, and only there is {} safe; nothing was changed, try "
      "again when it works or give it longer with --timeout",
      target.pid(), request.timeout_s, request.action));
}

}  // namespace heapspy::cli
