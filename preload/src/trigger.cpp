#include "trigger.h"

#include <signal.h>

#include <atomic>

#include "cgroup.h"
#include "control.h"
#include "options.h"
#include "process_facts.h"
#include "recorder.h"
#include "ring_copy.h"
#include "text.h"

namespace heapspy::trigger {

using format::Trigger;

namespace {

// A level that was crossed counts again when its value has fallen this far below it.
constexpr uint64_t kRearmPercent = 90;
// Allocations that fail usually fail in rows.
constexpr uint64_t kFailIntervalNs = 10000000000;

std::atomic<bool> rss_armed{true}, cgroup_armed{true}, signal_came{false};
std::atomic<uint64_t> next_fail_ns{0};

void freeze(Trigger why) {
  if (recorder->helper_runs.load(std::memory_order_acquire))
    control::have_helper_do(control::freeze_bit(why));
  else
    ring_copy::freeze(why);
}

void freeze_at_level(std::atomic<bool>& armed, uint64_t value, uint64_t level, Trigger why) {
  if (value >= level) {
    if (armed.exchange(false)) freeze(why);
  } else if (value < level / 100 * kRearmPercent) {
    armed.store(true);
  }
}

void on_signal(int) {
  signal_came.store(true);
  if (recorder && recorder->alive && recorder->helper_runs.load(std::memory_order_acquire)) control::have_helper_do(0);
}

bool parse_signal(const char* text, int* to) {
  constexpr struct {
    const char* name;
    int number;
  } kNames[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH}, {"URG", SIGURG}};
  if (begins_with(text, "SIG")) text += 3;
  for (const auto& each : kNames)
    if (same(text, each.name)) return *to = each.number, true;
  int base = 0, sign = 1;
  if (begins_with(text, "RTMIN"))
    base = SIGRTMIN, text += 5;
  else if (begins_with(text, "RTMAX"))
    base = SIGRTMAX, sign = -1, text += 5;
  if (base && *text) {
    if (*text != (sign > 0 ? '+' : '-')) return false;
    text++;
    if (!*text) return false;
  } else if (!base && !*text) {
    return false;
  }
  int number = 0;
  for (; *text >= '0' && *text <= '9' && number < 100; text++) number = number * 10 + (*text - '0');
  *to = base + sign * number;
  return !*text && *to > 0 && *to <= SIGRTMAX && *to != SIGKILL && *to != SIGSTOP;
}

bool parse_percent(const char* text, uint32_t* to) {
  uint32_t value = 0;
  for (; *text >= '0' && *text <= '9' && value < 1000; text++) value = value * 10 + static_cast<uint32_t>(*text - '0');
  *to = value;
  return same(text, "%") && value > 0 && value <= 100;
}

}  // namespace

bool parse(const char* text, Settings* to) {
  while (*text) {
    char word[64];
    Text part(word, sizeof word);
    for (; *text && *text != ','; text++) part.add(text, 1);
    if (*text == ',') text++;
    bool good = false;
    if (same(word, "fail")) good = to->fail = true;
    if (begins_with(word, "rss=")) good = parse_size(word + 4, &to->rss_bytes) && to->rss_bytes > 0;
    if (begins_with(word, "cgroup=")) good = parse_percent(word + 7, &to->cgroup_percent);
    if (begins_with(word, "signal=")) good = parse_signal(word + 7, &to->signal);
    if (!good) return false;
  }
  return to->any();
}

void set_up(const Settings& settings) {
  if (!settings.signal) return;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(settings.signal, &action, nullptr);
}

void freeze_if_due() {
  const Settings& wanted = options.trigger;
  if (signal_came.load(std::memory_order_relaxed) && signal_came.exchange(false)) freeze(Trigger::signal);
  if (wanted.rss_bytes) freeze_at_level(rss_armed, process_facts::rss_bytes(), wanted.rss_bytes, Trigger::rss);
  if (!wanted.cgroup_percent) return;
  const cgroup::Usage usage = cgroup::usage();
  if (usage.limit_bytes)
    freeze_at_level(cgroup_armed, usage.current_bytes, usage.limit_bytes / 100 * wanted.cgroup_percent, Trigger::cgroup);
}

void allocation_failed() {
  if (!options.trigger.fail || !recorder || !recorder->alive) return;
  const uint64_t now = os::clock_ns(CLOCK_MONOTONIC);
  uint64_t due = next_fail_ns.load();
  if (now < due || !next_fail_ns.compare_exchange_strong(due, now + kFailIntervalNs)) return;
  Shut shut;
  ring_copy::freeze(Trigger::fail);
}

}  // namespace heapspy::trigger
