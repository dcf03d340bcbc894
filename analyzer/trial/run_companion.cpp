#include "analyzer/trial/run_companion.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "analyzer/process/child_process.h"
#include "analyzer/process/live_process.h"

namespace heapspy::trial {

namespace {

void make_pipe(int (&ends)[2]) {
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw process::StartError(errno, fmt::format("no pipe can be made: {}", std::strerror(errno)));
}

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

std::optional<std::uint64_t> rss_of(pid_t pid) {
  try {
    const auto rollup = process::parse_rollup(process::LiveProcess(pid).try_text("smaps_rollup").value_or(""));
    return rollup ? std::optional(rollup->rss_bytes) : std::nullopt;
  } catch (const process::TargetError&) {
    return std::nullopt;
  }
}

}  // namespace

int RunCompanion::output_end() {
  if (!plan_.wants_output()) return -1;
  make_pipe(output_);
  ::fcntl(output_[0], F_SETFL, O_NONBLOCK);
  return output_[1];
}

void RunCompanion::begin(pid_t program, std::function<void()> before_end) {
  close_end(output_[1]);
  if (!plan_.any()) return;
  program_ = program;
  before_end_ = std::move(before_end);
  begin_ = Clock::now();
  make_pipe(stop_);
  if (!plan_.load.empty()) {
    load_ = process::start_child({plan_.load, {}, process::ChildOutput::discard});
    load_exit_ = static_cast<int>(::syscall(SYS_pidfd_open, load_, 0));
  }
  thread_ = std::thread([this] { run(); });
}

void RunCompanion::finish() {
  if (thread_.joinable()) {
    [[maybe_unused]] const ssize_t told = ::write(stop_[1], "", 1);
    thread_.join();
  }
  if (load_) {
    // Whoever waits for all children may have its status already.
    if (::waitpid(load_, nullptr, WNOHANG) == 0) {
      ::kill(load_, SIGTERM);
      while (::waitpid(load_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    load_ = 0;
  }
  for (int* end : {&output_[0], &output_[1], &stop_[0], &stop_[1], &load_exit_}) close_end(*end);
}

void RunCompanion::end_program() {
  if (ended_it_) return;
  ended_it_ = true;
  if (before_end_) before_end_();
  ::kill(program_, SIGTERM);
  kill_at_ = Clock::now() + kPatience;
}

void RunCompanion::read_output() {
  char part[4096];
  ssize_t got;
  while ((got = ::read(output_[0], part, sizeof part)) > 0) {
    if (plan_.show_output) [[maybe_unused]]
      const ssize_t written = ::write(STDERR_FILENO, part, static_cast<std::size_t>(got));
    if (ended_it_) continue;
    seen_.append(part, static_cast<std::size_t>(got));
    if (seen_.find(plan_.until_text) != std::string::npos) end_program();
    if (seen_.size() > plan_.until_text.size()) seen_.erase(0, seen_.size() - plan_.until_text.size());
  }
  if (got == 0) close_end(output_[0]);
}

void RunCompanion::run() {
  const auto after = [&](double seconds) {
    return begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  const bool load_decides = !plan_.load.empty() && !plan_.until_s && plan_.until_text.empty();
  double next_sample = 0;
  for (;;) {
    auto due = Clock::time_point::max();
    if (plan_.sample_s) due = std::min(due, after(next_sample));
    if (plan_.until_s && !ended_it_) due = std::min(due, after(*plan_.until_s));
    if (ended_it_) due = std::min(due, kill_at_);
    int timeout = -1;
    if (due != Clock::time_point::max()) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<long>(left + 1, 0, 3600 * 1000));
    }
    pollfd watched[] = {
        {stop_[0], POLLIN, 0}, {output_[0], POLLIN, 0}, {load_decides && !ended_it_ ? load_exit_ : -1, POLLIN, 0}};
    if (::poll(watched, 3, timeout) < 0 && errno != EINTR) return;
    if (watched[0].revents) return;
    if (watched[1].revents) read_output();
    if (watched[2].revents) end_program();
    const auto now = Clock::now();
    if (plan_.sample_s && now >= after(next_sample)) {
      const double at = std::chrono::duration<double>(now - begin_).count();
      if (const auto rss = rss_of(program_)) curve_.push_back({at, *rss});
      next_sample = std::max(next_sample + *plan_.sample_s, at);
    }
    if (plan_.until_s && now >= after(*plan_.until_s)) end_program();
    if (ended_it_ && now >= kill_at_) {
      ::kill(program_, SIGKILL);
      kill_at_ = now + kPatience;
    }
  }
}

}  // namespace heapspy::trial
