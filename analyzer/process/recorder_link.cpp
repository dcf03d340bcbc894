#include "analyzer/process/recorder_link.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "analyzer/process/mappings.h"

namespace heapspy::process {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAgain{100};        // whether the target still lives
constexpr milliseconds kWithdrawalGrace{500};  // for an answer that crossed the withdrawal
constexpr std::string_view kDeleted = " (deleted)";

[[noreturn]] void refuse(const std::string& line) { throw TargetError(TargetError::Reason::refused, line); }

// Words that another process reads and writes; shared, so not FUTEX_PRIVATE_FLAG.
void futex_wake(std::uint32_t* word) { ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }
void futex_wait(std::uint32_t* word, std::uint32_t seen, milliseconds most) {
  const timespec timeout{most.count() / 1000, (most.count() % 1000) * 1000000};
  ::syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

bool maps_whole_trace_start(const Mapping& m) {
  return m.shared && m.inode != 0 && m.file_offset == 0 && m.read && m.write && m.size_bytes() >= format::kPageBytes &&
         m.name.starts_with('/') && !m.name.starts_with("/dev/") && !m.name.starts_with("/memfd:") &&
         !m.name.starts_with("/SYSV");
}

// By its usual name first; any other shared file is looked into after that.
std::vector<const Mapping*> candidates_in(const MappingList& maps) {
  std::vector<const Mapping*> candidates;
  for (const Mapping& m : maps.mappings)
    if (maps_whole_trace_start(m)) candidates.push_back(&m);
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const Mapping* m) { return m->name.find(".hspy") != std::string::npos; });
  return candidates;
}

std::string map_file(const LiveProcess& target, const Mapping& m) {
  return fmt::format("/proc/{}/map_files/{:x}-{:x}", target.pid(), m.start, m.end);
}

bool is_trace_of(const LiveProcess& target, int fd, std::uint64_t inode, format::FileHeader& header) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_ino == inode &&
         ::pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) &&
         std::memcmp(header.magic, format::kMagic, sizeof header.magic) == 0 &&
         (header.pid == static_cast<std::uint32_t>(target.pid()) || header.pid == target.status().namespace_pid);
}

bool control_is_off(const LiveProcess& target) {
  const std::string environment = '\0' + target.try_text("environ").value_or("");
  return environment.find(std::string("\0HEAPSPY_CONTROL=off", 20) + '\0') != std::string::npos;
}

std::string what_to_do_without(const LiveProcess& target, const MappingList& maps, format::Request purpose) {
  const bool jvm = purpose == format::Request::trim &&
                   std::any_of(maps.mappings.begin(), maps.mappings.end(),
                               [](const Mapping& m) { return m.name.find("/libjvm.so") != std::string::npos; });
  return jvm ? fmt::format("jcmd {} System.trim_native_heap trims a JVM that does not", target.pid())
             : std::string("start it with heapspy record, or with LD_PRELOAD=libheapspy.so");
}

}  // namespace

RecorderLink::RecorderLink(const LiveProcess& target, format::Request purpose) : target_(target) {
  try {
    find(target, purpose);
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0)
      refuse(fmt::format("another heapspy is asking process {} something; try again when it is done", target.pid()));
    if (control_is_off(target))
      refuse(fmt::format("process {} was started with HEAPSPY_CONTROL=off; its recorder obeys nobody", target.pid()));
  } catch (...) {
    if (header_ != nullptr) ::munmap(header_, format::kPageBytes);
    if (file_ >= 0) ::close(file_);
    throw;
  }
}

RecorderLink::~RecorderLink() {
  ::munmap(header_, format::kPageBytes);
  ::close(file_);  // gives the lock back too
}

void RecorderLink::find(const LiveProcess& target, format::Request purpose) {
  const MappingList maps = parse_mappings(target.text("maps"));
  const std::string root = fmt::format("/proc/{}/root", target.pid());  // its own file systems, where it is in a container
  for (const Mapping* m : candidates_in(maps)) {
    const bool named = m->name.find(".hspy") != std::string::npos;
    if (try_mapping(m->name, m->inode, false) || try_mapping(root + m->name, m->inode, named)) return;
    if (!named || !m->name.ends_with(kDeleted)) continue;
    if (try_mapping(map_file(target, *m), m->inode, false)) return;
    refuse(fmt::format("the trace of process {} was deleted ({}), and with it the way to ask its recorder", target.pid(),
                       m->name.substr(0, m->name.size() - kDeleted.size())));
  }
  throw NotRecorded(
      fmt::format("process {} does not run under the recorder; {}", target.pid(), what_to_do_without(target, maps, purpose)));
}

std::string trace_of(const LiveProcess& target) {
  const MappingList maps = parse_mappings(target.text("maps"));
  for (const Mapping* m : candidates_in(maps))
    for (const std::string& path : {m->name, fmt::format("/proc/{}/root{}", target.pid(), m->name), map_file(target, *m)}) {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
      if (fd < 0) continue;
      format::FileHeader seen{};
      const bool is_trace = is_trace_of(target, fd, m->inode, seen);
      ::close(fd);
      if (is_trace) return path;
    }
  return "";
}

// Leaves file_, header_ and path_ set and returns true where `path` is the target's trace.
bool RecorderLink::try_mapping(const std::string& path, std::uint64_t inode, bool named_as_trace) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    if (named_as_trace && (errno == EACCES || errno == EPERM || errno == EROFS))
      refuse(fmt::format("the trace {} of process {} cannot be written to: {}; run heapspy as the user of that process", path,
                         target_.pid(), std::strerror(errno)));
    return false;
  }
  format::FileHeader seen{};
  const bool is_trace = is_trace_of(target_, fd, inode, seen);
  if (!is_trace) {
    ::close(fd);
    return false;
  }
  if (seen.version > format::kVersion) {
    ::close(fd);
    refuse(fmt::format("{} is of version {}, this heapspy knows versions up to {}; use the heapspy that came with its recorder",
                       path, seen.version, format::kVersion));
  }
  void* page = ::mmap(nullptr, format::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    refuse(fmt::format("{} cannot be mapped: {}", path, std::strerror(error)));
  }
  file_ = fd;
  header_ = static_cast<format::FileHeader*>(page);
  path_ = path;
  return true;
}

bool RecorderLink::has_listener() const {
  return std::atomic_ref<std::uint32_t>(header_->control.listeners).load(std::memory_order_acquire) != 0;
}

format::FileHeader RecorderLink::header() const {
  format::FileHeader copy;
  std::memcpy(&copy, header_, sizeof copy);
  return copy;
}

bool RecorderLink::answered(std::uint32_t asked, steady_clock::time_point until) const {
  std::uint32_t* word = &header_->control.answered;
  for (;;) {
    // Pairs with the recorder's release store after it filled the answer.
    const std::uint32_t seen = std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire);
    if (seen == asked) return true;
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    if (left.count() <= 0) return false;
    if (!target_.alive()) throw TargetError(TargetError::Reason::gone, fmt::format("process {} has ended", target_.pid()));
    futex_wait(word, seen, std::min(left, kLookAgain));
  }
}

std::optional<Answer> RecorderLink::ask(format::Request request, milliseconds timeout, std::string_view text) {
  format::Control& control = header_->control;
  std::atomic_ref<format::Request> wanted(control.request);
  control.result = format::RequestResult::pending;
  std::memset(control.text, 0, sizeof control.text);
  std::memcpy(control.text, text.data(), std::min(text.size(), kLongestMark));
  wanted.store(request, std::memory_order_relaxed);
  std::atomic_ref<std::uint32_t> asked(control.asked);
  // Nobody else adds: the lock is ours. The release makes request and result visible to who sees the new count.
  const std::uint32_t number = asked.load(std::memory_order_relaxed) + 1;
  asked.store(number, std::memory_order_release);
  futex_wake(&control.asked);
  if (!answered(number, steady_clock::now() + timeout)) {
    // Withdrawn by asking for nothing: lowering the count could cross with an answer, and then be served twice.
    wanted.store(format::Request::none, std::memory_order_release);
    if (!answered(number, steady_clock::now() + kWithdrawalGrace)) return std::nullopt;
    if (control.result != format::RequestResult::done) return std::nullopt;
  }
  return Answer{control.result, control.begin_tick, control.end_tick, control.value};
}

}  // namespace heapspy::process
