#include "analyzer/collector/collector.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "analyzer/collector/collected_trace.h"
#include "analyzer/collector/packing_queue.h"

namespace heapspy::collector {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Time = std::chrono::steady_clock;

// A ring's owner appends by itself at 15872 words. Early: what was just written is in its core's cache still (with 1984, 3968
// and 8184 a word of w1 costs the program 3.1, 3.3 and 3.6 ns).
constexpr std::uint64_t kTakeFrom = 1984;
// While words come in: a look often enough that a ring at full speed (some 15 ns a word) is not missed.
constexpr microseconds kLeast{5};
constexpr microseconds kShortestSleep{60};  // less is spent awake: a timer would be late
constexpr milliseconds kTick{1};            // beats, sightings, new files and segments
constexpr milliseconds kLongest{4};
constexpr milliseconds kLongQuiet{64};  // after so long without a word looks get rarer
constexpr milliseconds kGiveUpDescribing{2000};
constexpr milliseconds kBetweenLooks{20};
constexpr int kZstdLevel = 1;
constexpr int kNice = 5;

int open_process(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct Collector::State {
  struct Member {
    std::unique_ptr<CollectedTrace> trace;
    int process = -1;  // pidfd
    bool ended = false;
    Time::time_point next_look = {};  // whether it still maps its trace
  };

  std::string folder, pattern, name;
  int watch = -1, wake = -1, events = -1;
  std::map<std::string, Time::time_point> undescribed;  // files that are no trace yet, since when
  std::vector<Member> members;
  std::set<std::string> known;  // paths that were looked into
  trace::WordPacker packer{kZstdLevel};
  PackingQueue packing;
  std::atomic<bool> finishing{false};
  std::thread thread;
  bool started = false;

  State(const std::string& where, const std::string& which) : folder(where), pattern(which), name(std::to_string(::getpid())) {
    watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    events = ::epoll_create1(EPOLL_CLOEXEC);
    if (watch < 0 || wake < 0 || events < 0 || ::inotify_add_watch(watch, folder.c_str(), IN_CREATE | IN_ONLYDIR) < 0) return;
    listen(watch, kWatch);
    listen(wake, kWake);
    good = true;
  }
  ~State() {
    for (Member& each : members)
      if (each.process >= 0) ::close(each.process);
    for (const int fd : {watch, wake, events})
      if (fd >= 0) ::close(fd);
  }

  static constexpr std::uint64_t kWatch = ~0ull, kWake = ~0ull - 1;
  bool good = false;

  void listen(int fd, std::uint64_t what) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = what;
    ::epoll_ctl(events, EPOLL_CTL_ADD, fd, &event);
  }

  // ---- who there is ------------------------------------------------------------------------------------------------
  void found(const std::string& path) {
    if (known.count(path) || ::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) != 0) return;
    known.insert(path);
    undescribed.emplace(path, Time::now());
  }

  void read_watch() {
    alignas(inotify_event) char buffer[16384];
    for (ssize_t got; (got = ::read(watch, buffer, sizeof buffer)) > 0;)
      for (const char* at = buffer; at < buffer + got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        if (event->mask & IN_Q_OVERFLOW) look_through_folder();
        if (event->len) found(folder + "/" + event->name);
        at += sizeof *event + event->len;
      }
  }

  void look_through_folder() {
    glob_t names{};
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &names) == 0)
      for (std::size_t i = 0; i < names.gl_pathc; i++) found(names.gl_pathv[i]);
    ::globfree(&names);
  }

  void open_described() {
    for (auto each = undescribed.begin(); each != undescribed.end();) {
      Member member;
      const auto opened = CollectedTrace::open(each->first, name, member.trace);
      if (opened == CollectedTrace::Opened::not_yet && Time::now() - each->second < kGiveUpDescribing) {
        ++each;
        continue;
      }
      if (opened == CollectedTrace::Opened::yes) {
        member.process = open_process(member.trace->pid());
        if (member.process >= 0) listen(member.process, static_cast<std::uint64_t>(member.process));
        member.ended = member.process < 0;
        members.push_back(std::move(member));
      }
      each = undescribed.erase(each);
    }
  }

  void process_ended(int process) {
    for (Member& each : members)
      if (each.process == process) each.ended = true;
  }

  // Traces that nobody writes any more go to be packed; what their rings hold is read there.
  void let_go_of_ended() {
    const Time::time_point now = Time::now();
    for (std::size_t i = 0; i < members.size();) {
      Member& member = members[i];
      if (!member.ended && member.trace->has_ended() && now >= member.next_look) {
        member.ended = maps_no_more(*member.trace);
        member.next_look = now + kBetweenLooks;
      }
      if (!member.ended) {
        i++;
        continue;
      }
      const std::string path = member.trace->path();
      release(member);
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
      packing.add(path, PackingQueue::kTries);
    }
  }

  // True for a process that has become another program, under the same pid: it does not map the trace of the one that it was.
  static bool maps_no_more(const CollectedTrace& trace) {
    const int fd = ::open(("/proc/" + std::to_string(trace.pid()) + "/maps").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    std::string text;
    char part[65536];
    for (ssize_t got; (got = ::read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(got));
    ::close(fd);
    return text.find(trace.path().substr(trace.path().rfind('/'))) == std::string::npos;
  }

  void release(Member& member) {
    if (member.process >= 0) ::close(std::exchange(member.process, -1));
    member.trace.reset();
  }

  // ---- the work ----------------------------------------------------------------------------------------------------
  void wait(Time::duration how_long) {
    pollfd queue{events, POLLIN, 0};
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(how_long).count();
    const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
    if (::ppoll(&queue, 1, &timeout, nullptr) > 0) take_events();
  }

  // Without a look at the rings: each takes a line of the cache that the program is about to write.
  void pause(Time::duration how_long) {
    if (how_long >= kShortestSleep) return wait(how_long);
    for (const Time::time_point end = Time::now() + how_long; Time::now() < end;)
      for (int i = 0; i < 16; i++) relax();
  }
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  void take_events() {
    epoll_event happened[64];
    const int count = ::epoll_wait(events, happened, 64, 0);
    for (int i = 0; i < count; i++) switch (happened[i].data.u64) {
        case kWatch: read_watch(); break;
        case kWake: {
          std::uint64_t ignored;
          [[maybe_unused]] const ssize_t got = ::read(wake, &ignored, sizeof ignored);
          break;
        }
        default: process_ended(static_cast<int>(happened[i].data.u64));
      }
  }

  void tick() {
    wait({});
    open_described();
    for (Member& each : members) {
      each.trace->beat();
      each.trace->find_segments();
    }
    let_go_of_ended();
  }

  void run() {
    ::setpriority(PRIO_PROCESS, 0, kNice);  // this thread's: a program that needs every core empties its rings itself
    ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    Time::time_point next_tick{}, looked_before = Time::now(), last_fresh = looked_before;
    while (!finishing.load(std::memory_order_acquire)) {
      const Time::time_point now = Time::now();
      if (now >= next_tick) {
        next_tick = now + kTick;
        tick();
      }
      const Time::time_point look = Time::now();
      Fill fill;
      for (Member& each : members) {
        const Fill its = each.trace->round(kTakeFrom, packer);
        fill.words = std::max(fill.words, its.words);
        fill.fresh = std::max(fill.fresh, its.fresh);
      }
      const Time::duration interval = look - std::exchange(looked_before, look);
      if (fill.words >= kTakeFrom) continue;
      if (!fill.fresh) {
        // As long again as there has been nothing: a burst is not missed for the pause before it.
        const Time::duration quiet = look - last_fresh;
        pause(std::clamp<Time::duration>(quiet, kLeast, quiet < kLongQuiet ? kTick : kLongest));
        continue;
      }
      last_fresh = look;
      // Half of the time in which the fullest ring will have gathered enough, at the pace of this moment.
      const auto left = static_cast<long>(kTakeFrom - fill.words);
      pause(std::min<Time::duration>(interval * left / static_cast<long>(fill.fresh) / 2, kTick));
    }
    wait({});
    open_described();
    for (Member& each : members) {
      each.trace->find_segments();
      each.trace->round(1, packer);
    }
    for (Member& each : members) {
      const std::string path = each.trace->path();
      const bool ended = each.ended || each.trace->has_ended();
      release(each);
      packing.add(path, ended ? PackingQueue::kTries : 1);
    }
    members.clear();
  }
};

Collector::Collector(const std::string& folder, const std::string& pattern)
    : state_(std::make_unique<State>(folder, pattern)) {}
Collector::~Collector() {
  if (state_->started) finish();
}

const std::string& Collector::name() const { return state_->name; }
const std::vector<std::string>& Collector::problems() const { return state_->packing.problems(); }

void Collector::start() {
  State& s = *state_;
  if (!s.good) return;
  // Two descriptors a process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  const BlockedSignals blocked;
  s.packing.start();
  s.thread = std::thread([&s] { s.run(); });
  s.started = true;
}

void Collector::finish() {
  State& s = *state_;
  if (!std::exchange(s.started, false)) return;
  s.finishing.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = ::write(s.wake, &one, sizeof one);
  s.thread.join();
  s.packing.finish();
}

}  // namespace heapspy::collector
