#include "trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "message.h"
#include "os.h"
#include "text.h"

namespace heapspy {

using namespace format;

namespace {

// In pieces of 64 KiB: the kernel takes a large folio for each, and a store into the mapping finds it there (0.4 ns a byte in
// all, against 1.2 for pages that come one by one).
long write_zeros(int fd, uint64_t at, uint64_t bytes) {
  static const char zeros[4096] = {};
  iovec pages[16];
  for (iovec& page : pages) page = {const_cast<char*>(zeros), sizeof zeros};
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = bytes - done < 16 * sizeof zeros ? bytes - done : 16 * sizeof zeros;
    const long wrote = os::pwritev(fd, pages, static_cast<int>(part / sizeof zeros), at + done);
    if (wrote != static_cast<long>(part)) return wrote < 0 ? wrote : -28 /* ENOSPC */;
    done += part;
  }
  return 0;
}

// Reserves blocks, so that a store into the mapping can never meet a full disk (SIGBUS). Where the file system has no
// fallocate, zeros are written.
long preallocate(int fd, uint64_t at, uint64_t bytes) {
  const long result = os::fallocate(fd, at, bytes);
  return result == -95 /* EOPNOTSUPP */ || result == -38 /* ENOSYS */ ? write_zeros(fd, at, bytes) : result;
}

// For the first pages of a file. ext4 and xfs reserve the blocks of what is written too, ten microseconds cheaper; on a file
// system without a block device of its own (major number 0: tmpfs, btrfs, a network's) fallocate is cheaper, or promises more.
long preallocate_small(int fd, const struct stat& status, uint64_t bytes) {
  const bool on_block_device = (status.st_dev >> 8 & 0xfff) != 0;
  return on_block_device ? write_zeros(fd, 0, bytes) : preallocate(fd, 0, bytes);
}

Stop stop_of(long error) {
  switch (-error) {
    case 28:
    case 122: return Stop::no_space;
    case 27: return Stop::file_limit;
    case 23:
    case 24: return Stop::no_descriptor;
    case 1:
    case 2:
    case 13:
    case 20:
    case 30:
    case 40:
    case 116: return Stop::unreachable;
    default: return Stop::io_error;
  }
}

const char* words_of(Stop stop) {
  switch (stop) {
    case Stop::no_space: return "no space left on the disk";
    case Stop::file_limit: return "the file size limit (ulimit -f) is reached";
    case Stop::unreachable: return "the trace cannot be reached any more";
    case Stop::no_descriptor: return "no free file descriptor";
    case Stop::max_size: return "HEAPSPY_MAX is reached";
    default: return "write error";
  }
}

void seal(ChunkHeader& header) { header.header_checksum = checksum(&header, offsetof(ChunkHeader, header_checksum)); }

void seal(ChunkHeader& header, TraceFile::Part payload, TraceFile::Part more) {
  header.magic = kChunkMagic;
  header.version = 1;
  header.payload_bytes = payload.bytes + more.bytes;
  Checksum sum(header.payload_bytes);
  sum.add(payload.data, payload.bytes);
  sum.add(more.data, more.bytes);
  header.payload_checksum = sum.value();
  seal(header);
}

}  // namespace

bool TraceFile::create(uint64_t first_segment_bytes) {
  header_ = nullptr;
  os::File file(os::open(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (!file.ok()) return message::cannot_create_trace(path_, file.error()), false;
  const bool begun = begin_in(file.fd(), first_segment_bytes);
  if (!begun) os::unlink(path_);  // made by us (O_EXCL), and nothing is in it
  return begun;
}

bool TraceFile::begin_in(int fd, uint64_t first_segment_bytes) {
  const uint64_t begun_bytes = kPageBytes + first_segment_bytes;
  const uint64_t bytes = begun_bytes + kTailBytes;
  struct stat status {};
  long error = os::fstat(fd, &status);
  if (!error)
    error = bytes > os::file_size_limit() ? -27 /* EFBIG; the write itself would raise SIGXFSZ */
                                          : preallocate_small(fd, status, bytes);
  if (error) return message::cannot_create_trace(path_, error), false;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  char* mapped = static_cast<char*>(os::map_shared(fd, 0, bytes));
  if (!mapped) return message::cannot_map_trace(path_, -19), false;
  // A forked child must not share the page; without this advice it would write into its parent's trace.
  if (os::failed(os::advise(mapped, bytes, MADV_DONTFORK))) return message::no_fork_protection(), false;
  auto* header = reinterpret_cast<FileHeader*>(mapped);
  __builtin_memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->header_bytes = kPageBytes;
  header->append_at = begun_bytes;
  header_ = header;
  mapped_bytes_ = bytes;
  return true;
}

void begin_mapped_chunk(char* at, ChunkKind kind, uint64_t bytes) {
  ChunkHeader header{};
  header.magic = kChunkMagic;
  header.kind = kind;
  header.version = 1;
  header.payload_bytes = bytes - sizeof(ChunkHeader);
  seal(header);
  *reinterpret_cast<ChunkHeader*>(at) = header;
}

void TraceFile::close() {
  os::unmap(header_, mapped_bytes_);
  header_ = nullptr;
}

long TraceFile::reopen() {
  const long fd = os::open(path_, O_RDWR | O_NOFOLLOW);
  if (os::failed(fd)) return fd;
  struct stat status {};
  const long error = os::fstat(static_cast<int>(fd), &status);
  if (!error && status.st_dev == device_ && status.st_ino == inode_) return fd;
  os::close(static_cast<int>(fd));
  return error ? error : -116 /* ESTALE: another file has the name now */;
}

// One gap is remembered, the largest: another that comes while it is there stays empty.
void TraceFile::keep_gap(uint64_t from, uint64_t to) {
  const uint64_t fresh = from / kChunkAlignment | to / kChunkAlignment << 32, known = gap_.load(std::memory_order_relaxed);
  if (to / kChunkAlignment >> 32 == 0 && to - from > ((known >> 32) - static_cast<uint32_t>(known)) * kChunkAlignment)
    gap_.store(fresh, std::memory_order_relaxed);
}

bool TraceFile::take_of_gap(uint64_t bytes, uint64_t* at) {
  const uint64_t wanted = bytes / kChunkAlignment;
  for (uint64_t seen = gap_.load(std::memory_order_relaxed);;) {
    const uint64_t from = static_cast<uint32_t>(seen), to = seen >> 32;
    if (to - from < wanted) return false;
    *at = from * kChunkAlignment;
    if (gap_.compare_exchange_weak(seen, (from + wanted) | to << 32, std::memory_order_relaxed)) return true;
  }
}

bool TraceFile::reserve(uint64_t bytes, uint64_t alignment, uint64_t* at) {
  if (alignment == kChunkAlignment && take_of_gap(bytes, at)) return true;
  std::atomic_ref<uint64_t> end(header_->append_at);
  uint64_t seen = end.load(std::memory_order_relaxed);
  do {
    *at = align_up(seen, alignment);
    if (*at + bytes > header_->max_bytes) return failed(Stop::max_size, 0), false;
    if (*at + bytes > mapped_bytes_ && *at + bytes > os::file_size_limit()) return failed(Stop::file_limit, -27), false;
  } while (!end.compare_exchange_weak(seen, *at + bytes, std::memory_order_relaxed));
  if (*at > seen) keep_gap(seen, *at);
  return true;
}

void TraceFile::failed(Stop stop, long error) {
  std::atomic_ref<uint64_t>(header_->failed_appends).fetch_add(1, std::memory_order_relaxed);
  uint32_t none = 0;
  if (!std::atomic_ref<uint32_t>(header_->stop).compare_exchange_strong(none, static_cast<uint32_t>(stop))) return;
  header_->stop_errno = static_cast<uint32_t>(-error);
  message::recording_stopped(path_, words_of(stop));
}

bool TraceFile::begin_with(ChunkHeader& header, Part payload) {
  static_assert(sizeof(FileHeader) % kChunkAlignment == 0);
  if (sizeof *header_ + sizeof header + payload.bytes > kPageBytes) return append(header, payload);
  seal(header, payload, {});
  write_mapped(sizeof *header_, header, payload, {});
  header_->header_bytes = sizeof *header_;
  return true;
}

// The header last: a process that is killed in between leaves zeros.
void TraceFile::write_mapped(uint64_t at, const ChunkHeader& header, Part payload, Part more) {
  char* to = reinterpret_cast<char*>(header_) + at;
  __builtin_memcpy(to + sizeof header, payload.data, payload.bytes);
  if (more.bytes) __builtin_memcpy(to + sizeof header + payload.bytes, more.data, more.bytes);
  std::atomic_signal_fence(std::memory_order_release);
  __builtin_memcpy(to, &header, sizeof header);
}

bool TraceFile::append(ChunkHeader& header, Part payload, Part more) {
  const uint64_t bytes = payload.bytes + more.bytes;
  const uint64_t whole = sizeof header + bytes;
  uint64_t at;
  const uint64_t alignment = whole == kFullChunkBytes ? kFullChunkBytes : kChunkAlignment;
  if (!reserve(align_up(whole, kChunkAlignment), alignment, &at)) return false;
  seal(header, payload, more);
  if (at + whole <= mapped_bytes_) return write_mapped(at, header, payload, more), true;
  os::File file(reopen());
  if (!file.ok()) return failed(stop_of(file.error()), file.error()), false;
  const iovec parts[3] = {
      {&header, sizeof header}, {const_cast<void*>(payload.data), payload.bytes}, {const_cast<void*>(more.data), more.bytes}};
  const long wrote = os::pwritev(file.fd(), parts, more.bytes ? 3 : 2, at);
  if (wrote == static_cast<long>(whole)) return true;
  // What is counted as lost must not be read as well: a chunk that came out short loses its header.
  static const ChunkHeader none{};
  if (wrote > 0) os::pwrite(file.fd(), &none, sizeof none, at);
  failed(os::failed(wrote) ? stop_of(wrote) : Stop::no_space, os::failed(wrote) ? wrote : -28);
  return false;
}

char* TraceFile::add_segment(uint64_t bytes, bool at_once) {
  uint64_t at;
  if (!reserve(bytes, at_once ? kFullChunkBytes : kPageBytes, &at)) return nullptr;
  os::File file(reopen());
  if (!file.ok()) return failed(stop_of(file.error()), file.error()), nullptr;
  if (const long error = at_once ? write_zeros(file.fd(), at, bytes) : preallocate(file.fd(), at, bytes))
    return failed(stop_of(error), error), nullptr;
  char* mapped = static_cast<char*>(os::map_shared(file.fd(), at, bytes));
  if (mapped && os::failed(os::advise(mapped, bytes, MADV_DONTFORK))) os::unmap(mapped, bytes), mapped = nullptr;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; before, the pages come one by one
  if (mapped && at_once) os::advise(mapped, bytes, kPopulateWrite);
  return mapped;
}

}  // namespace heapspy
