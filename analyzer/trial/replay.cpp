#include "analyzer/trial/replay.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "analyzer/process/child_process.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::trial {

namespace {

constexpr double kWorthSaying = 0.1;             // what a prediction is commonly off by
constexpr std::uint64_t kWorthBytes = 1u << 20;  // of programs of a few MiB
constexpr int kArenasPerCpu = 8;                 // glibc malloc/arena.c: NARENAS_FROM_NCORES, 64 bits

// A name of its own in TMPDIR, removed at the end.
class OperationsFile {
 public:
  OperationsFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = fmt::format("{}/heapspy-replay-{}-{:x}", folder && *folder ? folder : "/tmp", ::getpid(),
                        reinterpret_cast<std::uintptr_t>(this));
    ::unlink(path_.c_str());
  }
  ~OperationsFile() { ::unlink(path_.c_str()); }
  OperationsFile(const OperationsFile&) = delete;
  OperationsFile& operator=(const OperationsFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Replayed parse(const std::string& text) {
  Replayed result;
  std::istringstream lines(text);
  std::string key;
  for (std::int64_t value; lines >> key >> value;) {
    const auto number = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    if (key == "curve") {
      CurvePoint point{static_cast<double>(value) / 1e6, 0};
      lines >> point.heap_bytes;
      result.curve.push_back(point);
    } else if (key == "peak") {
      result.peak_heap_bytes = number;
    } else if (key == "end") {
      result.end_heap_bytes = number;
    } else if (key == "operations") {
      result.operations = number;
    } else if (key == "failed") {
      result.failed = number;
    } else if (key == "wall_us") {
      result.wall_s = static_cast<double>(value) / 1e6;
    } else if (key == "cpu_us") {
      result.cpu_s = static_cast<double>(value) / 1e6;
    } else if (key == "faults") {
      result.minor_faults = number;
    } else if (key == "arenas" && value >= 0) {
      result.arenas = number;
    }
  }
  return result;
}

std::string read_all(int fd) {
  std::string text;
  char part[65536];
  for (;;) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

struct Output {
  std::string text;
  int status = 0;
};

Output run(const std::vector<std::string>& command, const process::EnvironmentChanges& changes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw process::StartError(errno, fmt::format("no pipe: {}", std::strerror(errno)));
  const std::vector<std::string> environment = process::changed_environment(changes);
  std::vector<char*> arguments, variables;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  for (const std::string& each : environment) variables.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Output output;
  if (!error) output.text = read_all(ends[0]);
  ::close(ends[0]);
  if (error)
    throw process::StartError(
        error, fmt::format("{} cannot be started: {}; install it beside libheapspy.so", command[0], std::strerror(error)));
  while (::waitpid(pid, &output.status, 0) < 0 && errno == EINTR) {
  }
  return output;
}

bool is_glibc(SettingKind kind) {
  return kind != SettingKind::jemalloc && kind != SettingKind::tcmalloc && kind != SettingKind::mimalloc;
}

// Nothing of this shell's allocator settings; what the setting says; the recorded machine's limit of arenas.
process::EnvironmentChanges environment_for(const ReplayedSetting& setting, std::optional<int> recorded_cpus) {
  process::EnvironmentChanges changes;
  for (const char* name : {"LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST", "MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_CONF", "MALLOC_PERTURB_"})
    changes.emplace_back(name, std::nullopt);
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(changes, [&](const auto& each) { return each.first == name; });
    changes.emplace_back(name, value);
  };
  if (recorded_cpus && is_glibc(setting.setting.kind) && *recorded_cpus != ::sysconf(_SC_NPROCESSORS_ONLN))
    set("MALLOC_ARENA_MAX", fmt::format("{}", kArenasPerCpu * *recorded_cpus));
  for (const auto& [name, value] : setting.recipe.environment) set(name, value);
  return changes;
}

Recipe recipe_of(const Setting& setting, const std::string& replayer) {
  if (setting.kind == SettingKind::trim) return {};  // the replayer trims by itself
  Surroundings surroundings = real_surroundings(replayer);
  surroundings.environment = [](const char*) { return std::string(); };
  return recipe_for(setting, surroundings);
}

std::string problem_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("the replay was killed by signal {}", WTERMSIG(status));
  return fmt::format("the replay ended with status {}", WEXITSTATUS(status));
}

std::string mib(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string percent(std::uint64_t from, std::uint64_t to) {
  if (!from) return "";
  const double change = (static_cast<double>(to) - static_cast<double>(from)) / static_cast<double>(from) * 100;
  return fmt::format(" ({}{:.0f} %)", change < 0 ? "−" : "+", std::abs(change));
}

bool worth_saying(std::uint64_t from, std::uint64_t to) {
  return to < from && from - to > kWorthBytes && static_cast<double>(from - to) > kWorthSaying * static_cast<double>(from);
}

std::string named(const ReplayedSetting& each) {
  const std::string hand = by_hand(each.recipe);
  return hand.empty() ? each.setting.text : fmt::format("{} ({})", each.setting.text, hand);
}

std::string change(const char* of, std::uint64_t from, std::uint64_t to) {
  return fmt::format("the heap's {} from {} to {}{}", of, mib(from), mib(to), percent(from, to));
}

std::string advise(const std::vector<ReplayedSetting>& settings) {
  const auto played = [](const ReplayedSetting& each) { return each.middle() != nullptr; };
  auto base = std::find_if(settings.begin(), settings.end(),
                           [&](const auto& each) { return each.setting.kind == SettingKind::base && played(each); });
  if (base == settings.end()) base = std::find_if(settings.begin(), settings.end(), played);
  if (base == settings.end()) return "no setting could be played";
  const ReplayedSetting *lowest = &*base, *lowest_end = &*base;
  std::size_t others = 0;
  for (const ReplayedSetting& each : settings) {
    if (&each == &*base || !played(each)) continue;
    others++;
    if (each.middle()->peak_heap_bytes < lowest->middle()->peak_heap_bytes) lowest = &each;
    if (each.middle()->end_heap_bytes < lowest_end->middle()->end_heap_bytes) lowest_end = &each;
  }
  if (!others) return fmt::format("nothing to compare {} with", base->setting.text);
  const Replayed &from = *base->middle(), &peak = *lowest->middle(), &end = *lowest_end->middle();
  const bool lower_peak = worth_saying(from.peak_heap_bytes, peak.peak_heap_bytes),
             lower_end = worth_saying(from.end_heap_bytes, end.end_heap_bytes);
  if (lower_peak)
    return fmt::format("{} lowers {} and {}", named(*lowest), change("peak", from.peak_heap_bytes, peak.peak_heap_bytes),
                       change("end", from.end_heap_bytes, peak.end_heap_bytes));
  const std::string no_peak = fmt::format("no setting lowers the heap's peak of {} by more than {:.0f} %",
                                          mib(from.peak_heap_bytes), kWorthSaying * 100);
  if (lower_end)
    return fmt::format("{}; {} lowers {}", no_peak, named(*lowest_end), change("end", from.end_heap_bytes, end.end_heap_bytes));
  return fmt::format("{}: the code that holds it is to be changed (heapspy report TRACE --by site)", no_peak);
}

}  // namespace

const Replayed* ReplayedSetting::middle() const {
  if (tries.empty()) return nullptr;
  std::vector<const Replayed*> order;
  for (const Replayed& each : tries) order.push_back(&each);
  std::sort(order.begin(), order.end(),
            [](const Replayed* left, const Replayed* right) { return left->peak_heap_bytes < right->peak_heap_bytes; });
  return order[order.size() / 2];
}

Replay replay(const trace::Reader& reader, const ReplayPlan& plan) {
  Replay result;
  const OperationsFile file;
  {
    OperationsWriter writer(file.path(), reader.clock(), plan.touch);
    trace::Timeline timeline(reader, {&writer});
    const trace::TimelineCounts counts = timeline.run(std::nullopt, plan.preparing);
    writer.finish(std::max(counts.last_tick, reader.process().end_tick.value_or(0)));
    result.left_out = writer.left_out();
  }
  for (const Setting& setting : plan.settings) result.settings.push_back({setting, recipe_of(setting, plan.replayer), {}, ""});

  std::size_t available = 0, number = 0;
  for (const ReplayedSetting& each : result.settings) available += each.recipe.unavailable.empty();
  for (unsigned repeat = 0; repeat < plan.repeat; repeat++)
    for (ReplayedSetting& each : result.settings) {
      if (!each.recipe.unavailable.empty() || !each.problem.empty()) continue;
      if (plan.progress) plan.progress(++number, available * plan.repeat, each.setting);
      std::vector<std::string> command = {plan.replayer, file.path()};
      if (each.setting.kind == SettingKind::trim) command.push_back(fmt::format("{}", each.setting.value * 1000));
      const Output output = run(command, environment_for(each, reader.process().cpus));
      if (!WIFEXITED(output.status) || WEXITSTATUS(output.status) != 0) {
        each.problem = problem_of(output.status);
        continue;
      }
      each.tries.push_back(parse(output.text));
      if (!is_glibc(each.setting.kind)) each.tries.back().arenas.reset();  // what glibc says of itself there is not this heap
    }
  result.advice = advise(result.settings);
  return result;
}

}  // namespace heapspy::trial
