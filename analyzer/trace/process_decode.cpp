#include "analyzer/trace/process_decode.h"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "analyzer/trace/tagged_items.h"

namespace heapspy::trace {

namespace {

// Strings that each end in NUL.
std::vector<std::string> split_strings(std::string_view content) {
  std::vector<std::string> strings;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\0'), content.size());
    strings.emplace_back(content.substr(0, end));
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return strings;
}

// Field 22 of /proc/PID/stat; 0 where it cannot be read.
std::uint64_t start_jiffies(std::uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = text.rfind(')');  // the name before it may hold anything
  if (at == std::string::npos) return 0;
  for (int field = 2; field < 22; field++) {
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return 0;
  }
  return std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

enum class Mapped { yes, no, unknown };

// By device and inode; or by path, since file systems that stack others show the numbers of what is beneath.
Mapped maps(std::uint32_t pid, const TraceFile& trace) {
  std::ifstream file(fmt::format("/proc/{}/maps", pid));
  const std::unique_ptr<char, decltype(&free)> real(::realpath(trace.path().c_str(), nullptr), &free);
  const std::string device = fmt::format("{:02x}:{:02x}", major(trace.device()), minor(trace.device()));
  const std::string inode = fmt::format("{}", trace.inode());
  std::string line;
  bool any = false;
  while (std::getline(file, line)) {
    any = true;
    // start-end permissions offset device inode path
    std::size_t at = 0;
    std::string_view fields[6];
    for (int i = 0; i < 6; i++) {
      at = line.find_first_not_of(' ', at);
      if (at == std::string::npos) break;
      const std::size_t end = i == 5 ? line.size() : std::min(line.find(' ', at), line.size());
      fields[i] = std::string_view(line).substr(at, end - at);
      at = end;
    }
    if ((fields[3] == device && fields[4] == inode) || (real && fields[5] == real.get())) return Mapped::yes;
  }
  return any ? Mapped::no : Mapped::unknown;
}

}  // namespace

ProcessInfo decode_process(const format::FileHeader& header, std::string_view payload) {
  ProcessInfo info;
  info.pid = header.pid;
  info.ppid = header.ppid;
  info.forked = header.forked != 0;
  info.start_realtime_ns = header.start_realtime_ns;
  info.end = static_cast<format::End>(header.end);
  if (info.end != format::End::running) info.end_tick = header.end_tick;
  for_each_item(payload, [&](std::uint32_t tag, std::string_view content) {
    using format::ProcessTag;
    switch (static_cast<ProcessTag>(tag)) {
      case ProcessTag::exe: info.exe = content; break;
      case ProcessTag::command: info.command = split_strings(content); break;
      case ProcessTag::host: info.host = content; break;
      case ProcessTag::working_folder: info.working_folder = content; break;
      case ProcessTag::environment:
        for (const std::string& setting : split_strings(content)) {
          const std::size_t equals = setting.find('=');
          if (equals != std::string::npos) info.environment.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
        }
        break;
      case ProcessTag::allocator: info.allocator = content; break;
      case ProcessTag::allocator_version: info.allocator_version = content; break;
      case ProcessTag::glibc_version: info.glibc_version = content; break;
      case ProcessTag::cpus: {
        int cpus = 0;
        if (std::from_chars(content.data(), content.data() + content.size(), cpus).ec == std::errc{}) info.cpus = cpus;
        break;
      }
      case ProcessTag::trace_path: break;
      case ProcessTag::front: info.front = content; break;
    }
  });
  return info;
}

bool still_runs(const format::FileHeader& header, const TraceFile& file) {
  if (header.pid == 0 || header.pid > 0x7FFFFFFF) return false;
  if (::kill(static_cast<pid_t>(header.pid), 0) != 0 && errno != EPERM) return false;
  const bool known_start = header.start_jiffies != 0;
  if (known_start && start_jiffies(header.pid) != header.start_jiffies) return false;
  switch (maps(header.pid, file)) {
    case Mapped::yes: return true;
    case Mapped::no: return false;
    case Mapped::unknown: return known_start;  // another user's: its pid and start time must do
  }
  return false;
}

}  // namespace heapspy::trace
