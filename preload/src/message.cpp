#include "message.h"

#include <sys/stat.h>

#include "os.h"
#include "text.h"

namespace heapspy::message {
namespace {

LogLevel level_ = LogLevel::error;

struct {
  bool known;
  uint64_t device, inode, special;
} stderr_;

bool stderr_is_still_there() {
  struct stat now {};
  return stderr_.known && !os::fstat(2, &now) && now.st_dev == stderr_.device && now.st_ino == stderr_.inode &&
         now.st_rdev == stderr_.special;
}

const char* reason(long error) {
  switch (-error) {
    case 1: return "operation not permitted";
    case 2: return "no such folder";
    case 13: return "permission denied";
    case 17: return "exists already";
    case 18: return "crosses devices";
    case 19: return "this file system has no shared mappings";
    case 20: return "a part of the path is not a folder";
    case 22: return "not possible on this file system";
    case 23:
    case 24: return "no free file descriptor";
    case 27: return "beyond the file size limit (ulimit -f)";
    case 28: return "no space left on the disk";
    case 30: return "read-only file system";
    case 36: return "name too long";
    case 12: return "out of memory";
    case 122: return "disk quota exceeded";
    default: return nullptr;
  }
}

class Line {
 public:
  Line() : text_(buffer_, sizeof buffer_ - 1) { text_.add("heapspy: "); }
  ~Line() {
    size_t length = text_.length();
    for (size_t i = 9; i < length; i++)  // a path or a value is data: no control characters on the terminal
      if (static_cast<unsigned char>(buffer_[i]) < ' ' || buffer_[i] == 127) buffer_[i] = '?';
    buffer_[length++] = '\n';
    if (stderr_is_still_there()) os::write_quietly(2, buffer_, length);
  }
  Line& operator<<(const char* more) {
    text_.add(more);
    return *this;
  }
  Line& error(long error) {
    if (const char* words = reason(error))
      text_.add(words);
    else
      text_.add("error ").add_number(static_cast<uint64_t>(-error));
    return *this;
  }

 private:
  char buffer_[700];
  Text text_;
};

bool errors() { return level_ >= LogLevel::error; }

}  // namespace

void set_level(LogLevel level) { level_ = level; }

void remember_stderr() {
  struct stat now {};
  if (!os::fstat(2, &now)) stderr_ = {true, now.st_dev, now.st_ino, now.st_rdev};
}

void bad_setting(const char* name, const char* value, const char* accepted) {
  if (errors()) Line() << name << "=" << value << ": not understood; accepted: " << accepted << ". Not recording.";
}
void no_libunwind() {
  if (errors()) Line() << "HEAPSPY_STACKS=libunwind: libunwind.so.8 is not there. Call stacks are taken as by dwarf.";
}

void no_stacks() {
  if (errors()) Line() << "HEAPSPY_STACKS: call stacks need x86-64 and glibc. Recording without.";
}

void trigger_without_ring() {
  if (errors()) Line() << "HEAPSPY_TRIGGER does nothing without HEAPSPY_MODE=ring.";
}
void no_java_frames(const char* missing) {
  if (level_ >= LogLevel::info)
    Line() << "this JVM does not say where " << missing << " is. Call stacks without Java's methods.";
}

void no_java_lines() {
  if (level_ >= LogLevel::info) Line() << "this JVM's compiled code is not laid out as expected. Java's methods without lines.";
}

void cannot_create_trace(const char* path, long error) {
  const char* what_to_do =
      error == -17 /* EEXIST */ ? "put %p and %t into HEAPSPY_OUT, or let it be a folder, and each program has its own."
                                : "set HEAPSPY_OUT to a writable folder.";
  if (errors()) (Line() << "cannot create " << path << ": ").error(error) << ". Not recording; " << what_to_do;
}
void cannot_map_trace(const char* path, long error) {
  if (errors())
    (Line() << "cannot map " << path << ": ").error(error) << ". Not recording; set HEAPSPY_OUT to a folder on a local disk.";
}
void trace_folder_gone(const char* path) {
  if (errors()) Line() << "the working folder has no path, and HEAPSPY_OUT (" << path << ") is relative. Not recording.";
}
void no_fork_protection() {
  if (errors()) Line() << "this kernel has no MADV_WIPEONFORK or MADV_DONTFORK (Linux 4.14). Not recording.";
}
void recording_to(const char* path) {
  if (level_ >= LogLevel::info) Line() << "recording to " << path;
}
void copy_frozen(const char* path) {
  if (level_ >= LogLevel::info) Line() << "froze a copy: " << path;
}
void recording_stopped(const char* path, const char* why) {
  if (errors()) Line() << "events are being lost: " << why << " (" << path << ")";
}

}  // namespace heapspy::message
