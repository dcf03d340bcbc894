// heapspy top [PID] [--once]: live, from /proc and the trace that is being written. Nothing is stopped or asked.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/process/memory_map.h"
#include "analyzer/process/recorder_link.h"
#include "analyzer/process/thread_look.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/screen.h"
#include "analyzer/report/table.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/stream_progress.h"

namespace heapspy::cli {
namespace {

using Clock = std::chrono::steady_clock;
using findings::bytes_text;
using findings::count_text;
using process::LiveProcess;

struct TopOptions {
  pid_t pid = 0;
  bool once = false;
};

std::string mode_name(format::Mode mode) {
  switch (mode) {
    case format::Mode::full: return "full";
    case format::Mode::ring: return "ring";
    case format::Mode::sample: return "sample";
    case format::Mode::count: return "count";
    default: return "?";
  }
}

std::string bytes_or_unknown(const std::optional<std::uint64_t>& bytes) { return bytes ? bytes_text(*bytes) : "?"; }

std::string title_of(const LiveProcess& target) {
  const std::vector<std::string> command = target.command();
  return command.empty() ? report::printable(target.status().name) : report::command_text(command);
}

// A process and its trace at one moment.
struct Look {
  Clock::time_point at = Clock::now();
  std::vector<process::ThreadLook> threads;
  std::map<std::uint32_t, trace::StreamProgress::Thread> streams;
  std::uint64_t trace_end = 0;

  const process::ThreadLook* thread(pid_t tid) const {
    const auto found = std::find_if(threads.begin(), threads.end(), [&](const auto& each) { return each.tid == tid; });
    return found == threads.end() ? nullptr : &*found;
  }
  // Of the newest thread that had this number.
  std::optional<std::uint64_t> words(pid_t tid) const {
    for (auto each = streams.rbegin(); each != streams.rend(); ++each)
      if (each->second.tid == static_cast<std::uint32_t>(tid)) return each->second.words;
    return std::nullopt;
  }
};

class Top {
 public:
  explicit Top(pid_t pid) : target_(pid) {
    expect_alive(target_);
    path_ = process::trace_of(target_);
    try {
      if (!path_.empty()) progress_ = std::make_unique<trace::StreamProgress>(path_);
    } catch (const trace::Unreadable&) {  // one of another version: the rest can be shown
      path_.clear();
    }
    before_ = look();
  }

  bool alive() const { return target_.alive(); }

  std::vector<std::string> frame(std::size_t most_threads) {
    const Look now = look();
    const double seconds = std::max(1e-6, std::chrono::duration<double>(now.at - before_.at).count());
    std::vector<std::string> lines = head(now, seconds);
    for (std::string& line : thread_lines(now, seconds, most_threads)) lines.push_back(std::move(line));
    before_ = now;
    return lines;
  }

 private:
  Look look() {
    Look look;
    look.threads = process::look_at_threads(target_);
    if (progress_) {
      look.streams = progress_->look();
      look.trace_end = progress_->header().append_at;
    }
    return look;
  }

  std::vector<std::string> head(const Look& now, double seconds) const {
    const process::Status status = target_.status();
    const process::MemoryMap map = process::scan_memory_map(target_);
    double cpu = 0;
    for (const process::ThreadLook& each : now.threads)
      if (const process::ThreadLook* then = before_.thread(each.tid)) cpu += each.cpu_s - then->cpu_s;
    std::vector<std::string> lines = {report::fit(title_of(target_), 80) + fmt::format("   pid {}", target_.pid()),
                                      fmt::format("RSS {} (peak {}), swap {} · CPU {:.0f} % · {} · {} of secondary arenas",
                                                  bytes_or_unknown(status.rss_bytes), bytes_or_unknown(status.peak_rss_bytes),
                                                  bytes_or_unknown(status.swap_bytes), cpu / seconds * 100,
                                                  findings::plural_text(now.threads.size(), "thread", "threads"),
                                                  findings::plural_text(map.regions_64mib, "heap", "heaps"))};
    if (!progress_) {
      lines.emplace_back("not recorded: no allocation rates (heapspy record, or LD_PRELOAD=libheapspy.so, records)");
      return lines;
    }
    const format::FileHeader header = progress_->header();
    lines.push_back(report::fit(
        fmt::format("mode {} · trace {} · {} events lost · {}", mode_name(header.mode), bytes_text(header.append_at),
                    count_text(progress_->lost_events() + header.unregistered_lost), report::printable(path_)),
        report::kWidth));
    return lines;
  }

  std::vector<std::string> thread_lines(const Look& now, double seconds, std::size_t most) const {
    struct Row {
      const process::ThreadLook* thread;
      double cpu;
      std::optional<double> words;
    };
    std::vector<Row> rows;
    for (const process::ThreadLook& each : now.threads) {
      Row row{&each, 0, std::nullopt};
      if (const process::ThreadLook* then = before_.thread(each.tid)) row.cpu = (each.cpu_s - then->cpu_s) / seconds * 100;
      if (const auto words = now.words(each.tid)) {
        const std::uint64_t earlier = before_.words(each.tid).value_or(0);
        row.words = static_cast<double>(*words > earlier ? *words - earlier : 0) / seconds;
      }
      rows.push_back(row);
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return a.words.value_or(0) != b.words.value_or(0) ? a.words.value_or(0) > b.words.value_or(0) : a.cpu > b.cpu;
    });
    report::Table table({"Threads", "tid", "CPU", progress_ ? "trace words/s" : "", "state"});
    for (std::size_t i = 0; i < std::min(rows.size(), most); i++)
      table.add({"  " + report::printable(rows[i].thread->name), std::to_string(rows[i].thread->tid),
                 fmt::format("{:.0f} %", rows[i].cpu),
                 !progress_      ? ""
                 : rows[i].words ? count_text(static_cast<std::uint64_t>(std::llround(*rows[i].words)))
                                 : "?",
                 std::string(1, rows[i].thread->state)});
    std::vector<std::string> lines = {""};
    for (std::string& line : table.lines(report::kWidth)) lines.push_back(std::move(line));
    if (rows.size() > most) lines.push_back(fmt::format("  and {} more", rows.size() - most));
    if (progress_)
      lines.emplace_back(
          "  words of the trace (8 bytes): an event is one, with a call stack or a large size two; now and then a time");
    return lines;
  }

  LiveProcess target_;
  std::string path_;
  std::unique_ptr<trace::StreamProgress> progress_;
  Look before_;
};

ExitStatus list_recorded() {
  report::Table table({"Recorded processes", "pid", "mode", "RSS", "threads", "trace"});
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    try {
      const LiveProcess target(pid);
      const std::string path = process::trace_of(target);
      if (path.empty()) continue;
      const trace::StreamProgress progress(path);
      const process::Status status = target.status();
      table.add({"  " + report::fit(title_of(target), 40), std::to_string(pid), mode_name(progress.header().mode),
                 bytes_or_unknown(status.rss_bytes), status.threads ? count_text(*status.threads) : "?",
                 bytes_text(progress.header().append_at)});
      found++;
    } catch (const process::TargetError&) {  // another user's, or it has ended meanwhile
    } catch (const trace::Unreadable&) {
    }
  }
  if (found == 0) {
    fmt::print("No process that may be looked at runs under the recorder; heapspy record CMD starts one\n");
    return ExitStatus::done;
  }
  for (const std::string& line : table.lines(report::kWidth)) fmt::print("{}\n", line);
  return ExitStatus::done;
}

std::size_t threads_that_fit() {
  constexpr std::size_t kOtherLines = 9;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= kOtherLines + 3) return 20;
  return size.ws_row - kOtherLines;
}

ExitStatus watch(const TopOptions& options) {
  const bool live = report::screen_of_stdout().terminal && !options.once;
  Top top(options.pid);
  do {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!top.alive()) {
      if (live) return ExitStatus::done;
      throw Failure(ExitStatus::target_refused, fmt::format("process {} has ended", options.pid));
    }
    const std::vector<std::string> lines = top.frame(live ? threads_that_fit() : 20);
    if (live) fmt::print("\x1b[H\x1b[J");
    for (const std::string& line : lines) fmt::print("{}\n", line);
    std::fflush(stdout);
  } while (live);
  return ExitStatus::done;
}

}  // namespace

void add_top_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", "live: threads, rates, arenas, RSS of a process; without PID, who is recorded");
  command->add_option("PID", options->pid, "the process")->check(process_id());
  command->add_flag("--once", options->once, "one frame, measured over a second; so too where the output is no terminal");
  command->footer(example("heapspy top 4242"));
  command->callback([options, &invocation] { invocation.status = options->pid ? watch(*options) : list_recorded(); });
}

}  // namespace heapspy::cli
