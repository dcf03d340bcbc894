#include "analyzer/cli/trace_search.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "heapspy/format/layout.h"

namespace heapspy::cli {
namespace {

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::optional<FoundTrace> look_into(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  format::FileHeader header;
  struct stat status {};
  const bool read = ::pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) && ::fstat(fd, &status) == 0;
  ::close(fd);
  if (!read || std::memcmp(header.magic, format::kMagic, sizeof header.magic) != 0) return std::nullopt;
  if (header.frozen_by != format::Trigger::none) return std::nullopt;  // a copy of another trace
  return FoundTrace{path, header.pid, header.ppid, header.start_realtime_ns, static_cast<std::uint64_t>(status.st_size)};
}

}  // namespace

std::string absolute_template(const std::string& out, const std::string& folder) {
  std::string path = out;
  if (!path.starts_with('/')) {
    path.clear();
    for (const char c : folder) path += c == '%' ? std::string("%%") : std::string(1, c);
    path += "/" + out;
  }
  if (path.ends_with('/')) return path + kDefaultTemplate;
  return is_folder(path) ? path + "/" + kDefaultTemplate : path;
}

std::string glob_of(const std::string& absolute_template, std::uint32_t pid) {
  std::string pattern;
  for (std::size_t i = 0; i < absolute_template.size(); i++) {
    char c = absolute_template[i];
    if (c == '%' && i + 1 < absolute_template.size()) {
      const char what = absolute_template[i + 1];
      i++;
      if (what == 'p' && pid != 0) {
        pattern += std::to_string(pid);
        continue;
      }
      if (std::strchr("pnth", what) != nullptr) {
        pattern += '*';
        continue;
      }
      pattern += '%';
      if (what == '%') continue;
      c = what;
    }
    if (std::strchr("*?[\\", c) != nullptr) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::vector<FoundTrace> find_traces(const std::string& absolute_template, std::uint32_t pid, std::uint64_t since_ns) {
  std::vector<FoundTrace> traces;
  glob_t names{};
  if (::glob(glob_of(absolute_template, pid).c_str(), GLOB_NOSORT, nullptr, &names) == 0)
    for (std::size_t i = 0; i < names.gl_pathc; i++)
      if (auto trace = look_into(names.gl_pathv[i]); trace && trace->start_realtime_ns >= since_ns)
        traces.push_back(std::move(*trace));
  ::globfree(&names);
  std::sort(traces.begin(), traces.end(),
            [](const FoundTrace& a, const FoundTrace& b) { return a.start_realtime_ns < b.start_realtime_ns; });
  return traces;
}

}  // namespace heapspy::cli
