#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "own_memory.h"

namespace heapspy::trial {

void Calls::map(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) fail(path);
  const auto bytes = static_cast<size_t>(status.st_size);
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail(path);
  close(fd);
  madvise(at, bytes, MADV_SEQUENTIAL);
  header_ = static_cast<const OperationsHeader*>(at);
  operations_ = reinterpret_cast<const Operation*>(header_ + 1);
  if (bytes < sizeof *header_ + sizeof(Operation) || memcmp(header_->magic, kOperationsMagic, sizeof kOperationsMagic) != 0 ||
      bytes != sizeof *header_ + header_->operations * sizeof(Operation))
    errno = EINVAL, fail(path);
  blocks_ = static_cast<void**>(shared_memory((header_->slots + 1ull) * sizeof(void*)));
}

}  // namespace heapspy::trial
