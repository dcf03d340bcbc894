#include "mapping_scan.h"

#include <fcntl.h>

#include "os.h"
#include "text.h"

namespace heapspy::mapping_scan {

using format::MappingRecord;

namespace {

uint64_t hexadecimal(const char*& at) {
  uint64_t value = 0;
  for (;; at++) {
    if (*at >= '0' && *at <= '9')
      value = value * 16 + static_cast<uint64_t>(*at - '0');
    else if (*at >= 'a' && *at <= 'f')
      value = value * 16 + static_cast<uint64_t>(*at - 'a' + 10);
    else
      return value;
  }
}

uint64_t decimal(const char*& at) {
  uint64_t value = 0;
  for (; *at >= '0' && *at <= '9'; at++) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return value;
}

void skip(const char*& at, char what) {
  while (*at == what) at++;
}
void skip_past_word(const char*& at) {
  while (*at && *at != ' ') at++;
  skip(at, ' ');
}

class Scan {
 public:
  explicit Scan(TaggedPayload& payload) : payload_(payload) {}

  void line(const char* at, size_t length) {
    // A mapping's line begins with a lower-case hexadecimal address; the others with a capital.
    if (*at >= 'A' && *at <= 'Z')
      figure(at);
    else
      mapping(at, at + length);
  }
  uint64_t rss_bytes() const { return rss_bytes_; }

 private:
  void mapping(const char* at, const char* end) {
    MappingRecord record{};
    record.start = hexadecimal(at);
    if (*at++ != '-') return;
    record.end = hexadecimal(at);
    skip(at, ' ');
    if (end - at < 4) return;
    record.permissions = (at[0] == 'r' ? 1u : 0) | (at[1] == 'w' ? 2u : 0) | (at[2] == 'x' ? 4u : 0) | (at[3] == 's' ? 8u : 0);
    skip_past_word(at);
    record.file_offset = hexadecimal(at);
    skip(at, ' ');
    skip_past_word(at);  // device
    record.inode = decimal(at);
    skip(at, ' ');
    record.name_bytes = static_cast<uint32_t>(end - at);
    current_ = nullptr;
    char* room = payload_.extend(sizeof record + format::align_up(record.name_bytes, 8));
    if (!room) return;
    __builtin_memcpy(room, &record, sizeof record);
    __builtin_memcpy(room + sizeof record, at, record.name_bytes);
    current_ = reinterpret_cast<MappingRecord*>(room);
  }

  void figure(const char* at) {
    if (!current_) return;
    uint64_t* to = nullptr;
    if (begins_with(at, "Rss:")) to = &current_->rss_bytes;
    if (begins_with(at, "Anonymous:")) to = &current_->anonymous_bytes;
    if (begins_with(at, "Swap:")) to = &current_->swap_bytes;
    if (begins_with(at, "AnonHugePages:")) to = &current_->anon_huge_bytes;
    if (begins_with(at, "Private_Dirty:")) to = &current_->private_dirty_bytes;
    if (!to) return;
    while (*at && *at != ':') at++;
    skip(++at, ' ');
    *to = decimal(at) * 1024;
    if (to == &current_->rss_bytes) rss_bytes_ += *to;
  }

  TaggedPayload& payload_;
  MappingRecord* current_ = nullptr;
  uint64_t rss_bytes_ = 0;
};

// Every line of `file` to `scan`. What is left of a line moves to the front of the buffer.
void scan_lines(int file, Scan& scan) {
  char* buffer = Pagemap::buffer();  // not on the stack, which may be small
  constexpr size_t kRoom = Pagemap::kBufferBytes - 1;
  size_t filled = 0;
  for (;;) {
    const long got = os::read(file, buffer + filled, kRoom - filled);
    if (got <= 0) return;
    filled += static_cast<size_t>(got);
    size_t line = 0;
    for (size_t at = 0; at < filled; at++) {
      if (buffer[at] != '\n') continue;
      buffer[at] = 0;
      scan.line(buffer + line, at - line);
      line = at + 1;
    }
    __builtin_memmove(buffer, buffer + line, filled - line);
    filled -= line;
    if (filled == kRoom) filled = 0;  // a line longer than any path
  }
}

uint64_t scan_file(const char* path, TaggedPayload& payload) {
  os::File file(os::open(path, O_RDONLY));
  Scan scan(payload);
  if (file.ok()) scan_lines(file.fd(), scan);
  return scan.rss_bytes();
}

// Address space that is counted page by page: 16 384 entries of pagemap, a tenth of a millisecond. Where the kernel tells runs
// of pages, address space costs nothing, and what is in RAM decides.
constexpr uint64_t kSmallBytes = 64ull << 20, kSmallRss = 16ull << 20;

bool is_small(const Pagemap& pagemap, bool remembered, const TaggedPayload& payload, uint64_t from) {
  if (remembered && pagemap.remembered_bytes() <= kSmallRss) return true;
  uint64_t accessible = 0;
  for_each(payload, from, payload.bytes(), [&](const MappingRecord& mapping) {
    if (mapping.permissions & 7) accessible += mapping.end - mapping.start;
  });
  return accessible <= kSmallBytes;
}

void count_pages(Pagemap& pagemap, MappingRecord& mapping) {
  pagemap.for_each_run(mapping.start / 4096, mapping.end / 4096, [&](const Pagemap::Run& run) {
    const uint64_t bytes = (run.end - run.first) * 4096;
    mapping.rss_bytes += run.present ? bytes : 0;
    mapping.anonymous_bytes += run.present && !run.of_file ? bytes : 0;
    mapping.anon_huge_bytes += run.present && !run.of_file && run.huge ? bytes : 0;
    mapping.swap_bytes += run.swapped ? bytes : 0;
  });
}

uint64_t count_all_pages(Pagemap& pagemap, TaggedPayload& payload, uint64_t from) {
  uint64_t rss = 0;
  while (from + sizeof(MappingRecord) <= payload.bytes()) {
    auto& mapping = *reinterpret_cast<MappingRecord*>(payload.data() + from);
    const char* name = payload.data() + from + sizeof mapping;
    // [vvar] maps no page of the process's; a reservation without access holds none.
    const bool counts = (mapping.permissions & 7) && !(mapping.name_bytes >= 5 && begins_with(name, "[vvar"));
    if (counts) count_pages(pagemap, mapping);
    rss += mapping.rss_bytes;
    from += sizeof mapping + format::align_up(mapping.name_bytes, 8);
  }
  return rss;
}

}  // namespace

uint64_t append_mappings(Pagemap& pagemap, TaggedPayload& payload) {
  const uint64_t from = payload.bytes();
  if (pagemap.ok()) {
    scan_file("/proc/self/maps", payload);
    const bool remembered = pagemap.remember_all();
    if (is_small(pagemap, remembered, payload, from)) return count_all_pages(pagemap, payload, from);
    pagemap.forget();
    payload.cut(from);
  }
  return scan_file("/proc/self/smaps", payload);
}

}  // namespace heapspy::mapping_scan
