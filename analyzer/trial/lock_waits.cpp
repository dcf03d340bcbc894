#include "analyzer/trial/lock_waits.h"

#include <fmt/core.h>
#include <sys/syscall.h>

#include <charconv>
#include <string>

#include "analyzer/process/live_process.h"

namespace heapspy::trial {
namespace {

constexpr std::uint64_t kFutexWaitPrivate = 0x80;  // FUTEX_WAIT | FUTEX_PRIVATE_FLAG
constexpr std::uint64_t kLockedWithWaiters = 2;

std::string_view take_word(std::string_view& text) {
  const std::size_t end = text.find_first_of(" \n");
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

std::uint64_t hexadecimal(std::string_view word) {
  std::uint64_t value = 0;
  if (word.starts_with("0x")) word.remove_prefix(2);
  std::from_chars(word.data(), word.data() + word.size(), value, 16);
  return value;
}

}  // namespace

// "202 0x7f… 0x80 0x2 0x0 0x0 0x0 0x7f… 0x7f…": call, address, operation, value …
std::optional<bool> waits_for_lock(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (take_word(text) != std::to_string(SYS_futex)) return false;
  take_word(text);
  const std::uint64_t operation = hexadecimal(take_word(text));
  // The kernel takes both as 32-bit numbers; what the program left above is not theirs.
  return (operation & 0xffffffff) == kFutexWaitPrivate && (hexadecimal(take_word(text)) & 0xffffffff) == kLockedWithWaiters;
}

LockWaitSampler::~LockWaitSampler() { finish(); }

void LockWaitSampler::add(pid_t pid) {
  const std::lock_guard<std::mutex> held(lock_);
  pids_.push_back(pid);
  if (!thread_.joinable() && !stop_) thread_ = std::thread([this] { run(); });
}

std::optional<double> LockWaitSampler::finish() {
  {
    const std::lock_guard<std::mutex> held(lock_);
    stop_ = true;
  }
  stop_wanted_.notify_all();
  if (thread_.joinable()) thread_.join();
  return saw_anything_ ? std::optional(waited_s_) : std::nullopt;
}

void LockWaitSampler::run() {
  auto last = std::chrono::steady_clock::now();
  for (;;) {
    {
      std::unique_lock<std::mutex> held(lock_);
      if (stop_wanted_.wait_for(held, kEvery, [this] { return stop_; })) return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (look(std::chrono::duration<double>(now - last).count())) saw_anything_ = true;
    last = now;
  }
}

bool LockWaitSampler::look(double since_last_s) {
  std::vector<pid_t> pids;
  {
    const std::lock_guard<std::mutex> held(lock_);
    pids = pids_;
  }
  bool seen = false;
  for (const pid_t pid : pids) {
    try {
      const process::LiveProcess target(pid);
      for (const pid_t tid : target.tasks()) {
        const auto text = target.try_text(fmt::format("task/{}/syscall", tid));
        const auto waits = text ? waits_for_lock(*text) : std::nullopt;
        seen = seen || waits.has_value();
        if (waits.value_or(false)) waited_s_ += since_last_s;
      }
    } catch (const process::TargetError&) {
      const std::lock_guard<std::mutex> held(lock_);
      std::erase(pids_, pid);
    }
  }
  return seen;
}

}  // namespace heapspy::trial
