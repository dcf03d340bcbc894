#include "tests/support/merge_truth.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <unordered_map>
#include <vector>

namespace heapspy::test {

namespace {

using trace::Block;
using trace::ThreadId;
using trace::Tick;

constexpr std::uint32_t kNone = ~0u;

struct Life {
  std::uint64_t address = 0;
  std::uint32_t thread = kNone;      // that began it
  std::uint32_t holder = kNone;      // that last changed its size where it stands, or began it
  std::uint32_t ended_by = kNone;    // thread
  std::uint32_t which_free = kNone;  // how often that thread had freed this address before
  std::uint32_t before = kNone;      // the life at this address before
  double born = 0;                   // ticks
  double ended = 0;
};

struct PlaceAndThread {
  std::uint64_t address;
  std::uint32_t thread;
  bool operator==(const PlaceAndThread&) const = default;
};
struct HashOfPlace {
  std::size_t operator()(const PlaceAndThread& key) const {
    return (key.address ^ std::uint64_t{key.thread} << 48) * 0x9E3779B97F4A7C15ull >> 8;
  }
};
using FreesOfPlace = std::unordered_map<PlaceAndThread, std::uint32_t, HashOfPlace>;

// Lives in the order in which they began, and each thread's allocations as indices into them.
struct History {
  std::vector<Life> lives;
  std::vector<std::vector<std::uint32_t>> allocations;  // by thread
  std::unordered_map<std::uint64_t, std::uint32_t> newest;

  std::uint32_t begin(std::uint64_t address, std::uint32_t thread, double tick) {
    const auto index = static_cast<std::uint32_t>(lives.size());
    Life life;
    life.address = address;
    life.thread = life.holder = thread;
    life.born = tick;
    auto [place, fresh] = newest.try_emplace(address, index);
    if (!fresh) {
      life.before = place->second;
      place->second = index;
    }
    lives.push_back(life);
    if (allocations.size() <= thread) allocations.resize(thread + 1);
    allocations[thread].push_back(index);
    return index;
  }
  // The newest life at `address` that has not ended.
  std::uint32_t living(std::uint64_t address) const {
    const auto place = newest.find(address);
    std::uint32_t index = place == newest.end() ? kNone : place->second;
    return index != kNone && lives[index].ended_by == kNone ? index : kNone;
  }
};

// ---- what the timeline says ----------------------------------------------------------------------------------------
class Said : public trace::Observer {
 public:
  History history;

  void allocated(const Block& block, Tick tick) override { begin(block, block.thread, tick); }
  void released(const Block& block, ThreadId by, trace::Release, Tick tick) override { end(block, by, tick); }
  void resized(const Block& before, const Block& after, ThreadId by, Tick tick) override {
    if (before.known && before.address == after.address) {
      const std::uint32_t living = history.living(after.address);
      if (living != kNone) history.lives[living].holder = index(by);
      return;
    }
    if (before.known) end(before, by, tick);
    begin(after, by, tick);
  }
  void lived_before(const Block& block, ThreadId by, trace::Release, Tick tick) override {
    const std::uint32_t lives_there = newest(block.address);
    Life& life = history.lives[history.begin(block.address, index(block.thread), static_cast<double>(tick))];
    life.ended_by = index(by);
    life.ended = life.born;
    if (lives_there == kNone) return;
    life.before = history.lives[lives_there].before;
    history.lives[lives_there].before = history.newest[block.address];
    history.newest[block.address] = lives_there;
  }
  void reattributed(const Block& block, ThreadId said, ThreadId is) override { change(block, said, index(is)); }
  void release_unseen(const Block& block, ThreadId said) override { change(block, said, kNone); }

  // The threads' frees of an address ended their lives in the order of these.
  void number_frees() {
    FreesOfPlace frees;
    for (Life& life : history.lives)
      if (life.ended_by != kNone) life.which_free = frees[{life.address, life.ended_by}]++;
  }

 private:
  void begin(const Block& block, ThreadId by, Tick tick) { history.begin(block.address, index(by), static_cast<double>(tick)); }

  // A realloc's old block is told of when the realloc ends: another may live at its address by then.
  void end(const Block& block, ThreadId by, Tick tick) {
    for (std::uint32_t i = newest(block.address), steps = 0; i != kNone && steps < 100; i = history.lives[i].before, steps++) {
      Life& life = history.lives[i];
      if (life.ended_by != kNone || life.holder != index(block.thread)) continue;
      life.ended_by = index(by);
      life.ended = static_cast<double>(tick);
      return;
    }
  }

  void change(const Block& block, ThreadId said, std::uint32_t is) {
    std::uint32_t fallback = kNone;
    for (std::uint32_t i = newest(block.address), steps = 0; i != kNone && steps < 1000; i = history.lives[i].before, steps++) {
      Life& life = history.lives[i];
      if (life.ended_by != index(said) || life.holder != index(block.thread)) continue;
      if (fallback == kNone) fallback = i;
      if (life.born != static_cast<double>(block.born)) continue;
      life.ended_by = is;
      return;
    }
    if (fallback != kNone) history.lives[fallback].ended_by = is;
  }

  std::uint32_t newest(std::uint64_t address) const {
    const auto place = history.newest.find(address);
    return place == history.newest.end() ? kNone : place->second;
  }
};

// ---- what was so ---------------------------------------------------------------------------------------------------
enum Operation : std::uint32_t { kFree = 1, kAllocation = 2, kReallocBegin = 3, kReallocEnd = 4 };

struct Entry {
  std::uint64_t tsc;
  std::uint64_t what;
  std::uint64_t address() const { return what & ~std::uint64_t{15}; }
  Operation operation() const { return static_cast<Operation>(what & 15); }
};

struct Log {
  std::uint32_t tid = 0;
  std::vector<Entry> entries;
};

std::vector<Log> logs_of(const std::string& folder, std::uint32_t pid) {
  std::vector<Log> logs;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (!file.path().filename().string().starts_with(std::to_string(pid) + ".")) continue;
    std::ifstream in(file.path(), std::ios::binary);
    Log log;
    std::vector<Entry> part(1 << 16);
    for (bool over = false; !over && in;) {
      in.read(reinterpret_cast<char*>(part.data()), static_cast<std::streamsize>(part.size() * sizeof(Entry)));
      const auto entries = static_cast<std::size_t>(in.gcount()) / sizeof(Entry);
      for (std::size_t i = 0; i < entries; i++) {
        over = !part[i].tsc;  // the rest was never written
        if (over) break;
        log.entries.push_back(part[i]);
      }
    }
    if (log.entries.empty()) continue;
    log.tid = static_cast<std::uint32_t>(log.entries.front().tsc);
    log.entries.erase(log.entries.begin());
    logs.push_back(std::move(log));
  }
  // The kernel gives tids out again: the older thread first.
  std::sort(logs.begin(), logs.end(), [](const Log& left, const Log& right) {
    return (left.entries.empty() ? 0 : left.entries[0].tsc) < (right.entries.empty() ? 0 : right.entries[0].tsc);
  });
  return logs;
}

class Truth {
 public:
  History history;
  std::uint64_t impossible = 0;

  Truth(const std::vector<Log>& logs, const format::FileHeader& header) {
    std::vector<std::uint64_t> order;  // log << 40 | entry
    for (std::size_t log = 0; log < logs.size(); log++)
      for (std::size_t i = 0; i < logs[log].entries.size(); i++) order.push_back(log << 40 | i);
    const auto at = [&](std::uint64_t key) -> const Entry& { return logs[key >> 40].entries[key & ((1ull << 40) - 1)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint64_t left, std::uint64_t right) { return at(left).tsc < at(right).tsc; });
    std::vector<std::uint64_t> moving(logs.size());  // old address of the realloc that is open
    for (const std::uint64_t key : order) {
      const Entry& entry = at(key);
      const auto log = static_cast<std::uint32_t>(key >> 40);
      const double tick = static_cast<double>(static_cast<std::int64_t>(entry.tsc - header.origin)) /
                          (header.tick_kind == format::TickKind::tsc4 ? 4 : 1);
      switch (entry.operation()) {
        case kFree: end(entry.address(), log, tick); break;
        case kAllocation: begin(entry.address(), log, tick); break;
        case kReallocBegin: {
          moving[log] = entry.address();
          // What becomes of it is in the thread's next entry (a signal handler that allocates in between is not provided for).
          const std::size_t next = (key & ((1ull << 40) - 1)) + 1;
          const bool moves = next < logs[log].entries.size() && logs[log].entries[next].address() != entry.address();
          if (moves) end(entry.address(), log, tick);
          break;
        }
        case kReallocEnd:
          if (entry.address() && entry.address() != moving[log]) begin(entry.address(), log, tick);
          break;
      }
    }
    history.allocations.resize(logs.size());
  }

 private:
  void begin(std::uint64_t address, std::uint32_t log, double tick) {
    impossible += history.living(address) != kNone;
    history.begin(address, log, tick);
  }
  void end(std::uint64_t address, std::uint32_t log, double tick) {
    const std::uint32_t which = frees_[{address, log}]++;
    const std::uint32_t index = history.living(address);
    if (index == kNone) {
      impossible++;
      return;
    }
    Life& life = history.lives[index];
    life.ended_by = log;
    life.which_free = which;
    life.ended = tick;
  }

  FreesOfPlace frees_;
};

// ---- the two together ----------------------------------------------------------------------------------------------

// The thread of the trace that wrote each log. Several threads may have had a tid one after another: in order.
std::vector<std::uint32_t> threads_of(const std::vector<Log>& logs, const trace::Reader& reader) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_tid;
  for (const trace::ThreadStream& stream : reader.threads()) by_tid[stream.tid].push_back(trace::index(stream.id));
  std::map<std::uint32_t, std::size_t> seen;
  std::vector<std::uint32_t> threads;
  for (const Log& log : logs) {
    const auto found = by_tid.find(log.tid);
    const std::size_t nth = seen[log.tid]++;
    threads.push_back(found != by_tid.end() && nth < found->second.size() ? found->second[nth] : kNone);
  }
  return threads;
}

void show_address(std::ostream& out, const History& said, const History& truth, const std::vector<std::uint32_t>& thread_of_log,
                  std::uint64_t address, double from, double to) {
  const auto list = [&](const char* title, const History& history, auto name) {
    out << "  " << title << '\n';
    for (const Life& life : history.lives)
      if (life.address == address && life.born > from - 200000 && life.born < to + 200000)
        out << "    " << std::llround(life.born) << " thread " << name(life.thread) << " … "
            << (life.ended_by == kNone ? "lives" : std::to_string(std::llround(life.ended)) + " thread " + name(life.ended_by))
            << '\n';
  };
  out << "address " << std::hex << address << std::dec << ", ticks\n";
  list("said", said, [](std::uint32_t thread) { return std::to_string(thread); });
  list("was", truth, [&](std::uint32_t log) { return thread_of_log[log] == kNone ? "?" : std::to_string(thread_of_log[log]); });
}

}  // namespace

MergeTruth compare_with_truth(const trace::Reader& reader, const std::string& folder, std::size_t show, std::ostream* out) {
  MergeTruth result;
  Said said;
  result.counts = trace::Timeline(reader, {&said}).run();
  said.number_frees();
  const std::vector<Log> logs = logs_of(folder, reader.header().pid);
  const Truth truth(logs, reader.header());
  result.impossible = truth.impossible;
  const std::vector<std::uint32_t> thread_of_log = threads_of(logs, reader);

  std::vector<float> errors;
  for (std::size_t log = 0; log < logs.size(); log++) {
    const std::uint32_t thread = thread_of_log[log];
    if (thread == kNone || thread >= said.history.allocations.size()) continue;
    const std::vector<std::uint32_t>& real = truth.history.allocations[log];
    std::size_t next = 0;
    for (const std::uint32_t index : said.history.allocations[thread]) {
      const Life& life = said.history.lives[index];
      std::size_t found = next;  // the recorder's own beginnings are not in the trace
      while (found < real.size() && found < next + 100 && truth.history.lives[real[found]].address != life.address) found++;
      if (found == real.size() || found == next + 100) {
        result.unpaired++;
        continue;
      }
      next = found + 1;
      const Life& was = truth.history.lives[real[found]];
      errors.push_back(static_cast<float>(std::abs(was.born - life.born)));
      if (was.ended_by == kNone) continue;
      result.frees++;
      const bool thread_right = life.ended_by == thread_of_log[was.ended_by];
      if (thread_right && life.which_free == was.which_free) continue;
      result.wrong++;
      result.wrong_thread += !thread_right;
      if (out && result.wrong <= show)
        show_address(*out, said.history, truth.history, thread_of_log, life.address, std::min(was.born, life.born),
                     std::max(was.born, life.born));
    }
  }
  if (!errors.empty()) {
    std::sort(errors.begin(), errors.end());
    const auto us = [&](std::size_t at) { return reader.clock().seconds(static_cast<Tick>(std::lround(errors[at]))) * 1e6; };
    result.median_error_us = us(errors.size() / 2);
    result.p99_error_us = us(errors.size() * 99 / 100);
    result.worst_error_us = us(errors.size() - 1);
  }
  return result;
}

}  // namespace heapspy::test
