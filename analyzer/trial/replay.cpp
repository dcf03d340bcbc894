#include "analyzer/trial/replay.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "analyzer/trace/timeline.h"

namespace heapspy::trial {

namespace {

constexpr int kArenasPerCpu = 8;    // glibc malloc/arena.c: NARENAS_FROM_NCORES, 64 bits
constexpr int kJemallocPerCpu = 4;  // jemalloc: opt.narenas
// What replays of the programs of bench/README.md ("Replay") err by, beyond what their repeats show.
constexpr double kErrorOfOneThread = 0.03, kErrorOfThreads = 0.1;
constexpr std::uint64_t kErrorBytes =
    256 << 10;  // at least: small heaps differ by pages that the allocator or the process happens to write
constexpr double kPaces[] = {0.5, 2, 4};  // of the program's time: faster or busier machines than the recorded one
constexpr unsigned kRepeatsOfRandom = 3;  // jemalloc draws from an address

// A file in TMPDIR that is in no folder any more as soon as it is open, so that nothing is left whatever ends this process.
class OperationsFile {
 public:
  OperationsFile() {
    const char* folder = std::getenv("TMPDIR");
    name_ = fmt::format("{}/heapspy-replay-{}-{:x}", folder && *folder ? folder : "/tmp", ::getpid(),
                        reinterpret_cast<std::uintptr_t>(this));
    ::unlink(name_.c_str());
  }
  ~OperationsFile() { ::close(fd_); }
  OperationsFile(const OperationsFile&) = delete;
  OperationsFile& operator=(const OperationsFile&) = delete;

  const std::string& name() const { return name_; }
  void keep_only_open(int fd) {
    fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    ::unlink(name_.c_str());
  }
  // For children, while this lives.
  std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

 private:
  std::string name_;
  int fd_ = -1;
};

bool is_glibc(SettingKind kind) {
  return kind != SettingKind::jemalloc && kind != SettingKind::tcmalloc && kind != SettingKind::mimalloc;
}
bool goes_by_clock(SettingKind kind) {
  return kind == SettingKind::jemalloc || kind == SettingKind::mimalloc || kind == SettingKind::trim;
}

// Nothing of this shell's allocator settings; what the setting says; the limits of arenas of the machine asked for.
process::EnvironmentChanges environment_for(const ReplayedSetting& setting, std::optional<int> cpus) {
  process::EnvironmentChanges changes;
  for (const char* name : {"LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST", "MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_CONF", "MALLOC_PERTURB_"})
    changes.emplace_back(name, std::nullopt);
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(changes, [&](const auto& each) { return each.first == name; });
    changes.emplace_back(name, value);
  };
  if (cpus && *cpus != ::sysconf(_SC_NPROCESSORS_ONLN)) {
    if (is_glibc(setting.setting.kind)) set("MALLOC_ARENA_MAX", fmt::format("{}", kArenasPerCpu * *cpus));
    if (setting.setting.kind == SettingKind::jemalloc) set("MALLOC_CONF", fmt::format("narenas:{}", kJemallocPerCpu * *cpus));
  }
  for (const auto& [name, value] : setting.recipe.environment) set(name, value);
  return changes;
}

Recipe recipe_of(const Setting& setting, const std::string& replayer) {
  if (setting.kind == SettingKind::trim) return {};  // the replayer trims by itself
  Surroundings surroundings = real_surroundings(replayer);
  surroundings.environment = [](const char*) { return std::string(); };
  return recipe_for(setting, surroundings);
}

// What this machine and this trace cannot honour.
std::vector<std::string> notes_on(const trace::Reader& reader, const ReplayPlan& plan) {
  std::vector<std::string> notes;
  const long here = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto cpus = plan.cpus ? std::optional<int>(static_cast<int>(*plan.cpus)) : reader.process().cpus;
  if (cpus && *cpus > here)
    notes.push_back(
        fmt::format("{} had {} CPUs, there are {} here: arenas are limited as there, but CPU time and lock waits are "
                    "those of {} CPUs",
                    plan.cpus ? "the machine asked for" : "the recorded machine", *cpus, here, here));
  if (reader.lost_events())
    notes.push_back(fmt::format("the trace lost {} events: what they held is not played", reader.lost_events()));
  if (!reader.damage().empty())
    notes.push_back(fmt::format("the trace is damaged in {} places: what they held is not played", reader.damage().size()));
  if (reader.header().stop)
    notes.emplace_back("recording stopped before the program ended: the end here is the end of the trace");
  if (reader.process().running) notes.emplace_back("the program was still running: the end here is the end of the trace");
  return notes;
}

struct Spread {
  std::uint64_t least = UINT64_MAX, most = 0;
  void add(std::uint64_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  Range widened(double by) const {
    const auto share = [&](std::uint64_t of) {
      return std::max(static_cast<std::uint64_t>(static_cast<double>(of) * by), kErrorBytes);
    };
    return {least - std::min(least, share(least)), most + share(most)};
  }
};

struct Operations {
  std::string path;
  std::uint64_t duration_us = 0;
  std::optional<std::uint64_t> heap_at_exit_at_most;  // in the recorded process
};

// Where the last trim falls before the end is by chance in a program that runs for some periods: at the end itself, or a period
// before it.
enum class LastTrim { as_it_falls, at_the_end, long_ago };

// All replays of one plan.
class Trials {
 public:
  Trials(const trace::Reader& reader, const ReplayPlan& plan, const Operations& operations, Replay& result)
      : reader_(reader), plan_(plan), operations_(operations), result_(result) {}

  void run() {
    struct Round {
      double pace;
      bool in_windows, is_try;
      bool (*wanted)(const Setting&, bool threaded);
      LastTrim last_trim = LastTrim::as_it_falls;
    };
    const auto everywhere = [](const Setting&, bool) { return true; };
    const auto by_clock = [](const Setting& each, bool) { return goes_by_clock(each.kind); };
    const auto random = [](const Setting& each, bool) { return each.kind == SettingKind::jemalloc; };
    const auto trims = [](const Setting& each, bool) { return each.kind == SettingKind::trim; };
    const auto threads = [](const Setting&, bool threaded) { return threaded; };
    const bool windows = plan_.order == Order::window;
    std::vector<Round> rounds(plan_.repeat, Round{1, windows, true, everywhere});
    if (plan_.ranges) {
      for (unsigned i = plan_.repeat; i < kRepeatsOfRandom; i++) rounds.push_back({1, windows, true, random});
      for (const double pace : kPaces) rounds.push_back({pace, windows, false, by_clock});
      for (const LastTrim last : {LastTrim::at_the_end, LastTrim::long_ago}) rounds.push_back({1, windows, false, trims, last});
      if (!windows) rounds.push_back({1, true, false, threads});
    }
    spreads_.resize(result_.settings.size());
    const bool threaded = result_.threads > 1;
    std::size_t runs = 0, number = 0;
    for (const bool counting : {true, false})
      for (const Round& round : rounds)
        for (std::size_t i = 0; i < result_.settings.size(); i++) {
          ReplayedSetting& each = result_.settings[i];
          if (!each.recipe.unavailable.empty() || !each.problem.empty() || !round.wanted(each.setting, threaded)) continue;
          if (counting) {
            runs++;
            continue;
          }
          if (plan_.progress) plan_.progress(++number, runs, each.setting);
          play(i, round.pace, round.in_windows, round.is_try, round.last_trim);
        }
    if (plan_.count_memory_calls || plan_.look)
      for (ReplayedSetting& each : result_.settings)
        if (each.problem.empty() && each.middle()) count_and_look(each);
    const double error = threaded ? kErrorOfThreads : kErrorOfOneThread;
    for (std::size_t i = 0; i < result_.settings.size(); i++) {
      if (result_.settings[i].tries.empty()) continue;
      result_.settings[i].peak_range = spreads_[i].peak.widened(error);
      result_.settings[i].end_range = spreads_[i].end.widened(error);
    }
    heed_recorded_end();
  }

 private:
  // A program that calls malloc_trim itself ends with less than its replay, for that call is in no trace.
  void heed_recorded_end() {
    const auto base = std::find_if(result_.settings.begin(), result_.settings.end(),
                                   [](const auto& each) { return each.setting.kind == SettingKind::base && each.middle(); });
    if (!operations_.heap_at_exit_at_most || base == result_.settings.end()) return;
    const std::uint64_t recorded = *operations_.heap_at_exit_at_most, played = base->middle()->end_heap_bytes;
    if (played <= recorded + recorded / 10 + (1 << 20)) return;
    result_.notes.push_back(
        fmt::format("the recorded process ended with at most {:.1f} MiB of heap in RAM, its replay with {:.1f} MiB: it called "
                    "malloc_trim, or had settings of its own; the ends here are too high for it",
                    static_cast<double>(recorded) / (1 << 20), static_cast<double>(played) / (1 << 20)));
    for (ReplayedSetting& each : result_.settings)
      if (is_glibc(each.setting.kind))
        each.end_range.least = std::min(each.end_range.least, recorded - std::min(recorded, kErrorBytes));
  }

  ReplayRun prepared(const ReplayedSetting& each, double pace, bool in_windows) {
    ReplayRun run;
    run.replayer = plan_.replayer;
    run.operations = operations_.path;
    run.pace = pace;
    run.in_windows = in_windows;
    const std::optional<int> cpus = plan_.cpus ? std::optional<int>(static_cast<int>(*plan_.cpus)) : reader_.process().cpus;
    run.environment = environment_for(each, cpus);
    if (!is_glibc(each.setting.kind)) run.usual_baseline_bytes = usual_baseline();
    // A program that takes twice as long is trimmed twice as often.
    if (each.setting.kind == SettingKind::trim)
      run.trim_us = static_cast<std::uint64_t>(static_cast<double>(each.setting.value) * 1000 / pace);
    return run;
  }

  void count_and_look(ReplayedSetting& each) {
    ReplayRun run = prepared(each, 1, false);
    run.count_memory_calls = plan_.count_memory_calls;
    if (plan_.look && is_glibc(each.setting.kind)) {
      run.look_before = each.middle()->peak_operation + 1;
      run.look = [&](pid_t pid, bool at_end) { (at_end ? each.ledger_at_end : each.ledger_at_peak) = plan_.look(pid); };
    }
    each.memory_calls = run_replay(run).result.memory_calls;
  }

  void play(std::size_t at, double pace, bool in_windows, bool is_try, LastTrim last_trim) {
    ReplayedSetting& each = result_.settings[at];
    ReplayRun run = prepared(each, pace, in_windows);
    if (last_trim != LastTrim::as_it_falls) {
      // Of a program that took a little less or more time; at most twice as much.
      if (operations_.duration_us * 2 < run.trim_us) return;
      const std::uint64_t last = operations_.duration_us % run.trim_us;
      run.first_trim_us = std::max<std::uint64_t>(1, last_trim == LastTrim::at_the_end ? last : last + 1);
    }
    ReplayOutcome outcome = run_replay(run);
    if (!outcome.problem.empty()) {
      each.problem = outcome.problem;
      each.tries.clear();
      return;
    }
    if (!is_glibc(each.setting.kind)) outcome.result.arenas.reset();  // what glibc says of itself there is not this heap
    spreads_[at].peak.add(outcome.result.peak_heap_bytes);
    spreads_[at].end.add(outcome.result.end_heap_bytes);
    if (is_try)
      each.tries.push_back(std::move(outcome.result));
    else if (in_windows)
      each.at_once = std::move(outcome.result);
  }

  // Of the replayer under the C library's allocator: from a replay of nothing.
  std::uint64_t usual_baseline() {
    if (!usual_baseline_) {
      ReplayRun nothing;
      nothing.replayer = plan_.replayer;
      nothing.operations = kNoOperations;
      nothing.environment = environment_for(ReplayedSetting(), {});
      usual_baseline_ = run_replay(nothing).result.baseline_bytes;
    }
    return *usual_baseline_;
  }

  struct Spreads {
    Spread peak, end;
  };
  const trace::Reader& reader_;
  const ReplayPlan& plan_;
  const Operations& operations_;
  Replay& result_;
  std::vector<Spreads> spreads_;
  std::optional<std::uint64_t> usual_baseline_;
};

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
  OperationsFile file;
  Operations operations;
  {
    OperationsWriter writer(file.name(), reader.clock(), plan.touch);
    file.keep_only_open(writer.fd());
    trace::Timeline timeline(reader, {&writer});
    const trace::TimelineCounts counts = timeline.run(std::nullopt, plan.preparing);
    writer.finish(std::max(counts.last_tick, reader.process().end_tick.value_or(0)));
    operations.duration_us = writer.duration_us();
    operations.heap_at_exit_at_most = writer.heap_at_exit_at_most();
    result.left_out = writer.left_out();
    result.touch_is_told = writer.touch_is_told();
    result.threads = writer.threads();
  }
  result.notes = notes_on(reader, plan);
  for (const Setting& setting : plan.settings) {
    ReplayedSetting& each = result.settings.emplace_back();
    each.setting = setting;
    each.recipe = recipe_of(setting, plan.replayer);
  }
  operations.path = file.path();
  Trials(reader, plan, operations, result).run();
  result.advice = advise(result.settings);
  return result;
}

}  // namespace heapspy::trial
