#include "smaps_scan.h"

#include "os.h"
#include "text.h"

namespace heapspy::smaps_scan {

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

}  // namespace

uint64_t append_mappings(int smaps, TaggedPayload& payload) {
  constexpr size_t kRoom = 64 << 10;
  char* buffer = static_cast<char*>(os::map_anonymous(kRoom));  // a hook must not use that much stack
  if (!buffer) return 0;
  Scan scan(payload);
  size_t filled = 0;
  for (;;) {
    const long got = os::read(smaps, buffer + filled, kRoom - 1 - filled);
    if (got <= 0) break;
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
    if (filled == kRoom - 1) filled = 0;  // a line longer than any path
  }
  os::unmap(buffer, kRoom);
  return scan.rss_bytes();
}

}  // namespace heapspy::smaps_scan
