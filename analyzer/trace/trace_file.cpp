#include "analyzer/trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "analyzer/trace/reader.h"

namespace heapspy::trace {

namespace {

const char* advice(int error) {
  switch (error) {
    case ENOENT: return "; check the path";
    case EACCES:
    case EPERM: return "; traces are readable by the user whose process was recorded";
    default: return "";
  }
}

}  // namespace

TraceFile::TraceFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) throw Unreadable(fmt::format("{}: cannot open: {}{}", path, std::strerror(errno), advice(errno)));
  struct stat status = {};
  const int failed = ::fstat(descriptor_, &status);
  if (!failed && S_ISREG(status.st_mode)) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
    return;
  }
  ::close(descriptor_);
  if (!failed && S_ISDIR(status.st_mode)) throw Unreadable(fmt::format("{}: is a folder, not a trace", path));
  throw Unreadable(fmt::format("{}: not a regular file, so not a trace", path));
}

TraceFile::~TraceFile() { ::close(descriptor_); }

std::uint64_t TraceFile::size() const {
  struct stat status = {};
  return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

std::uint64_t TraceFile::read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
  std::uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  return done;
}

std::uint64_t TraceFile::next_data(std::uint64_t offset) const {
  const off_t data = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
  if (data >= 0) return std::max(offset, static_cast<std::uint64_t>(data));
  return errno == ENXIO ? std::max(offset, size()) : offset;  // ENXIO: nothing but a hole up to the end
}

}  // namespace heapspy::trace
