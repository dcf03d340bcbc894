// TemporaryFile.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "tests/support/trace_builder.h"

namespace heapspy::test {

// In memory where the kernel can: thousands of small rewrites cost a disk seconds. The path holds for child processes too.
TemporaryFile::TemporaryFile(const std::string& content) {
  descriptor_ = memfd_create("heapspy-test", MFD_CLOEXEC);
  if (descriptor_ >= 0) {
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_);
  } else {
    const char* folder = getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/heapspy-test-XXXXXX";
    descriptor_ = mkstemp(path_.data());
    if (descriptor_ < 0) throw std::runtime_error("cannot make a temporary file: " + path_);
    on_disk_ = true;
  }
  if (!content.empty()) write(content);
}

TemporaryFile::~TemporaryFile() {
  close(descriptor_);
  if (on_disk_) unlink(path_.c_str());
}

void TemporaryFile::write(std::string_view content) {
  std::FILE* file = std::fopen(path_.c_str(), "wb");
  if (!file) throw std::runtime_error("cannot write " + path_);
  std::fwrite(content.data(), 1, content.size(), file);
  std::fclose(file);
}

}  // namespace heapspy::test
