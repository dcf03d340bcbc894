#include "analyzer/trace/replacement_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "analyzer/trace/pack.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

namespace {
constexpr std::size_t kBufferBytes = 1 << 20;
}

ReplacementFile::ReplacementFile(const std::string& target)
    : target_(target), path_(target + fmt::format(".{}.packing", ::getpid())) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0) fail("cannot be made", errno);
  made_ = true;
  buffer_.reserve(kBufferBytes);
}

ReplacementFile::~ReplacementFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (made_) ::unlink(path_.c_str());
}

void ReplacementFile::write(const void* from, std::size_t bytes) {
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes >= kBufferBytes) return write_at(from, bytes, at_), void(at_ += bytes);
  buffer_.append(static_cast<const char*>(from), bytes);
}

void ReplacementFile::pad(std::uint64_t alignment) {
  buffer_.resize(buffer_.size() + (format::align_up(size(), alignment) - size()));
}

void ReplacementFile::flush() {
  write_at(buffer_.data(), buffer_.size(), at_);
  at_ += buffer_.size();
  buffer_.clear();
}

void ReplacementFile::take_name(const struct stat& like, bool to_disk) {
  if (::fchown(descriptor_, like.st_uid, like.st_gid) != 0 && errno != EPERM) fail("cannot be given its owner", errno);
  const timespec times[2] = {like.st_atim, like.st_mtim};
  ::futimens(descriptor_, times);
  if (to_disk && ::fsync(descriptor_) != 0) fail("cannot be written", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be written", errno);
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot take its name", errno);
  made_ = false;
}

void ReplacementFile::fail(const char* what, int error) {
  throw NotPacked(NotPacked::Why::unwritable,
                  fmt::format("{} {}: {}; the trace is as it was", path_, what, std::strerror(error)));
}

void ReplacementFile::write_at(const void* from, std::size_t bytes, std::uint64_t at) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t wrote =
        ::pwrite(descriptor_, static_cast<const char*>(from) + done, bytes - done, static_cast<off_t>(at + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("cannot be written", wrote < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace heapspy::trace
