#include "analyzer/cli/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "analyzer/cli/command.h"
#include "analyzer/report/printable.h"
#include "heapspy/format/layout.h"

namespace heapspy::cli {
namespace {

[[noreturn]] void cannot_write(const std::string& name) {
  const int error = errno;
  throw Failure(ExitStatus::unreadable, fmt::format("{} cannot be written: {}", report::printable(name), std::strerror(error)));
}

void write_all(int fd, const std::string& data, const std::string& name) {
  for (std::size_t done = 0; done < data.size();) {
    const ssize_t wrote = ::write(fd, data.data() + done, data.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) cannot_write(name);
    done += static_cast<std::size_t>(wrote);
  }
}

// The output is never meant to be a trace; and one that is being written must keep its length, or its program dies of SIGBUS.
void keep_trace(const std::string& path) {
  char magic[sizeof format::kMagic];
  std::ifstream file(path, std::ios::binary);
  if (file.read(magic, sizeof magic) && std::memcmp(magic, format::kMagic, sizeof magic) == 0)
    throw Failure(ExitStatus::wrong_usage,
                  report::printable(path) + " is a trace, which would be overwritten: give another name");
}

}  // namespace

void write_output(const std::string& path, const std::string& data) {
  if (path.empty() || path == "-") return write_all(STDOUT_FILENO, data, "the output");
  keep_trace(path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) cannot_write(path);
  write_all(fd, data, path);
  if (::close(fd) != 0) cannot_write(path);  // NFS says so late
}

}  // namespace heapspy::cli
