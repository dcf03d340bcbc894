#include "analyzer/process/live_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

namespace heapspy::process {
namespace {

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

template <typename Number>
std::optional<Number> number_at_front(std::string_view text, int base = 10) {
  skip_blanks(text);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> kib_at_front(std::string_view text) {
  const auto kib = number_at_front<std::uint64_t>(text);
  if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

// Calls `each(key, value)` for every "Key: value" line.
template <typename Each>
void for_each_line(std::string_view text, Each each) {
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view value = line.substr(colon + 1);
    skip_blanks(value);
    each(line.substr(0, colon), value);
  }
}

std::string user_name(uid_t uid) {
  passwd entry{}, *found = nullptr;
  char buffer[1024];
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
    return fmt::format("{} (uid {})", found->pw_name, uid);
  return fmt::format("uid {}", uid);
}

std::string read_all(int fd, int& error) {
  std::string content;
  std::size_t filled = 0;
  error = 0;
  for (;;) {
    if (content.size() - filled < (1u << 16)) content.resize(std::max<std::size_t>(content.size() * 2, 1u << 17));
    const ssize_t got = ::read(fd, content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

}  // namespace

Status parse_status(std::string_view text) {
  Status status;
  for_each_line(text, [&](std::string_view key, std::string_view value) {
    if (key == "Name") status.name = value;
    if (key == "State" && !value.empty()) status.state = value.front();
    if (key == "Tgid") status.thread_group = number_at_front<std::uint32_t>(value);
    if (key == "TracerPid") status.tracer = number_at_front<std::uint32_t>(value);
    if (key == "Seccomp") status.seccomp = number_at_front<std::uint32_t>(value);
    if (key == "SigIgn") status.ignored = number_at_front<std::uint64_t>(value, 16).value_or(0);
    if (key == "SigCgt") status.caught = number_at_front<std::uint64_t>(value, 16).value_or(0);
    if (key == "x86_Thread_features") status.shadow_stack = value.find("shstk") != std::string_view::npos;
    if (key == "PPid") status.parent = number_at_front<std::uint32_t>(value);
    if (key == "Uid") status.uid = number_at_front<std::uint32_t>(value);
    if (key == "Threads") status.threads = number_at_front<std::uint32_t>(value);
    if (key == "NSpid") status.namespace_pid = number_at_front<std::uint32_t>(value.substr(value.find_last_of(" \t") + 1));
    if (key == "SigBlk") status.blocked = number_at_front<std::uint64_t>(value, 16).value_or(0);
    if (key == "SigPnd" || key == "ShdPnd") status.pending |= number_at_front<std::uint64_t>(value, 16).value_or(0);
    if (key == "SigPnd")
      status.kill_pending = ((number_at_front<std::uint64_t>(value, 16).value_or(0) >> (SIGKILL - 1)) & 1) != 0;
    if (key == "VmRSS") status.rss_bytes = kib_at_front(value);
    if (key == "VmHWM") status.peak_rss_bytes = kib_at_front(value);
    if (key == "VmPTE") status.page_table_bytes = kib_at_front(value);
    if (key == "VmLck") status.locked_bytes = kib_at_front(value);
    if (key == "VmSwap") status.swap_bytes = kib_at_front(value);
  });
  return status;
}

std::optional<MemoryTotals> parse_rollup(std::string_view text) {
  MemoryTotals totals;
  bool found = false;
  for_each_line(text, [&](std::string_view key, std::string_view value) {
    const std::uint64_t bytes = kib_at_front(value).value_or(0);
    if (key == "Rss") {
      totals.rss_bytes = bytes;
      found = kib_at_front(value).has_value();
    }
    if (key == "Pss") totals.pss_bytes = bytes;
    if (key == "Anonymous") totals.anonymous_bytes = bytes;
    if (key == "Private_Dirty") totals.private_dirty_bytes = bytes;
    if (key == "Swap") totals.swap_bytes = bytes;
  });
  return found ? std::optional(totals) : std::nullopt;
}

// "61 0x2bd 0x7ffd… 0x0 0x0 0x0 0x0 0x7ffdba6c9e58 0x7f1b3f1d2a4d": call, six arguments, stack pointer, program
// counter; "-1 0x7f… 0x7f…" outside a call; "running".
std::optional<std::uint64_t> parse_stack_pointer(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(" \n");
    if (end != 0) words.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (words.size() != 9 && words.size() != 3) return std::nullopt;
  std::string_view pointer = words[words.size() - 2];
  if (!pointer.starts_with("0x")) return std::nullopt;
  return number_at_front<std::uint64_t>(pointer.substr(2), 16);
}

LiveProcess::LiveProcess(pid_t pid) : pid_(pid) {
  folder_ = ::open(fmt::format("/proc/{}", pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ >= 0) return;
  const int error = errno;
  if (error == ENOENT)
    throw TargetError(TargetError::Reason::gone, fmt::format("there is no process {}; ps -e lists those that are", pid));
  throw TargetError(TargetError::Reason::refused, fmt::format("/proc/{} cannot be opened: {}", pid, std::strerror(error)));
}

LiveProcess::~LiveProcess() {
  for (const int fd : {folder_, memory_, page_map_})
    if (fd >= 0) ::close(fd);
}

int LiveProcess::open_file(const std::string& name) const {
  return ::openat(folder_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

bool LiveProcess::alive() const {
  const auto now = try_text("status");
  if (!now) return false;
  const Status status = parse_status(*now);
  return status.state && *status.state != 'Z' && *status.state != 'X';
}

void LiveProcess::expect_memory() const {
  if (!alive()) throw TargetError(TargetError::Reason::gone, fmt::format("process {} has ended", pid_));
  if (!status().rss_bytes)
    throw TargetError(TargetError::Reason::refused, fmt::format("process {} has no memory of its own (a kernel thread)", pid_));
}

void LiveProcess::refuse(const std::string& name, int error) const {
  if (!alive() || error == ESRCH || error == ENOENT)
    throw TargetError(TargetError::Reason::gone, fmt::format("process {} has ended", pid_));
  if (error != EACCES && error != EPERM)
    throw TargetError(TargetError::Reason::refused,
                      fmt::format("/proc/{}/{} cannot be read: {}", pid_, name, std::strerror(error)));
  const auto owner = parse_status(try_text("status").value_or("")).uid;
  if (owner && *owner != geteuid())
    throw TargetError(TargetError::Reason::refused,
                      fmt::format("process {} belongs to {} and /proc/{}/{} is closed to others; run heapspy as that user, or "
                                  "with CAP_SYS_PTRACE (root)",
                                  pid_, user_name(*owner), pid_, name));
  expect_memory();
  std::string why = "it is not dumpable (setuid, or it changed its rights) or runs in another user namespace";
  int scope_error = 0;
  if (const int fd = ::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC); fd >= 0) {
    const auto scope = number_at_front<int>(read_all(fd, scope_error));
    ::close(fd);
    if (scope && *scope > 0) why += fmt::format(", or kernel.yama.ptrace_scope={} forbids it", *scope);
  }
  throw TargetError(TargetError::Reason::refused,
                    fmt::format("/proc/{}/{} may not be read: {}; run heapspy with CAP_SYS_PTRACE (root)", pid_, name, why));
}

void LiveProcess::refuse_trace(int error) const {
  if (const auto tracer = parse_status(try_text("status").value_or("")).tracer; tracer && *tracer != 0)
    throw TargetError(
        TargetError::Reason::refused,
        fmt::format("process {} is being traced by process {} (a debugger?), and a process has one tracer at most", pid_,
                    *tracer));
  refuse("mem", error);
}

std::string LiveProcess::text(const std::string& name) const {
  const int fd = open_file(name);
  if (fd < 0) refuse(name, errno);
  int error = 0;
  std::string content = read_all(fd, error);
  ::close(fd);
  if (error != 0) refuse(name, error);
  return content;
}

std::optional<std::string> LiveProcess::try_text(const std::string& name) const {
  const int fd = open_file(name);
  if (fd < 0) return std::nullopt;
  int error = 0;
  std::string content = read_all(fd, error);
  ::close(fd);
  if (error != 0) return std::nullopt;
  return content;
}

std::string LiveProcess::link(const std::string& name) const {
  std::string target(4096, '\0');
  const ssize_t length = ::readlinkat(folder_, name.c_str(), target.data(), target.size());
  target.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return target;
}

std::vector<std::string> LiveProcess::command() const {
  std::vector<std::string> arguments;
  const std::string all = try_text("cmdline").value_or("");
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    arguments.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

std::vector<pid_t> LiveProcess::tasks() const {
  std::vector<pid_t> tasks;
  const int fd = ::openat(folder_, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = fd >= 0 ? ::fdopendir(fd) : nullptr;
  if (folder == nullptr) {
    if (fd >= 0) ::close(fd);
    return tasks;
  }
  while (const dirent* entry = ::readdir(folder))
    if (const auto tid = number_at_front<pid_t>(entry->d_name)) tasks.push_back(*tid);
  ::closedir(folder);
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

std::vector<std::uint64_t> LiveProcess::stack_pointers() const {
  std::vector<std::uint64_t> pointers;
  for (const pid_t tid : tasks())
    if (const auto text = try_text(fmt::format("task/{}/syscall", tid)))
      if (const auto pointer = parse_stack_pointer(*text)) pointers.push_back(*pointer);
  return pointers;
}

std::size_t LiveProcess::read_memory(std::uint64_t address, std::span<std::byte> to) const {
  if (memory_ < 0) memory_ = open_file("mem");
  std::size_t done = 0;
  while (memory_ >= 0 && done < to.size()) {
    const ssize_t got = ::pread(memory_, to.data() + done, to.size() - done, static_cast<off_t>(address + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::optional<std::vector<bool>> LiveProcess::resident_pages(std::uint64_t start, std::size_t pages) const {
  if (page_map_ < 0) page_map_ = open_file("pagemap");
  if (page_map_ < 0) return std::nullopt;
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<bool> resident(pages);
  std::uint64_t entries[4096];
  for (std::size_t done = 0; done < pages;) {
    const std::size_t wanted = std::min(pages - done, std::size(entries));
    const ssize_t got = ::pread(page_map_, entries, wanted * sizeof entries[0],
                                static_cast<off_t>((start / page_bytes + done) * sizeof entries[0]));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    const std::size_t count = static_cast<std::size_t>(got) / sizeof entries[0];
    if (count == 0) return std::nullopt;
    for (std::size_t i = 0; i < count; i++) resident[done + i] = (entries[i] >> 63) != 0;
    done += count;
  }
  return resident;
}

std::optional<std::vector<PageState>> LiveProcess::page_states(std::uint64_t start, std::size_t pages) const {
  if (page_map_ < 0) page_map_ = open_file("pagemap");
  if (page_map_ < 0) return std::nullopt;
  return scan_pages(page_map_, start, pages, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace heapspy::process
