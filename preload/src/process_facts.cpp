#include "process_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <initializer_list>

#include "message.h"
#include "next_allocator.h"
#include "options.h"
#include "os.h"
#include "tagged_payload.h"
#include "text.h"

namespace heapspy::process_facts {

using namespace format;

namespace {

constexpr char kDefaultName[] = "heapspy.%n.%p.%t.hspy";
char exe_[kMaxPath];
char out_[kMaxPath];
char scratch_[kMaxPath];  // one thread at a time begins a trace; its stack may be small
char** environment_ = nullptr;
char* no_environment_[1] = {nullptr};
constexpr size_t kEnvironmentRoom = 32 << 10;
constexpr size_t kPointers = 512;

// Where libc has not set environ yet, or the program was started so early that it is null.
void read_environment_from_proc() {
  char* room = static_cast<char*>(os::map_anonymous(kEnvironmentRoom + kPointers * sizeof(char*)));
  if (!room) return;
  char** pointers = reinterpret_cast<char**>(room + kEnvironmentRoom);
  const size_t length = os::read_file("/proc/self/environ", room, kEnvironmentRoom);
  size_t count = 0;
  for (size_t at = 0; at < length && count + 1 < kPointers; at += length_of(room + at) + 1) pointers[count++] = room + at;
  environment_ = pointers;
}

// Gregorian date of a count of seconds since 1970 (days-to-civil; H. Hinnant's algorithm).
void add_utc(Text& text, uint64_t ns) {
  const uint64_t seconds = ns / 1000000000u;
  const uint64_t days = seconds / 86400 + 719468;
  const uint64_t era = days / 146097;
  const uint64_t day_of_era = days - era * 146097;
  const uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const uint64_t shifted_month = (5 * day_of_year + 2) / 153;
  const uint64_t day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
  const uint64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
  const uint64_t year = year_of_era + era * 400 + (month <= 2);
  const uint64_t of_day = seconds % 86400;
  text.add_number(year, 4).add_number(month, 2).add_number(day, 2).add("T");
  text.add_number(of_day / 3600, 2).add_number(of_day / 60 % 60, 2).add_number(of_day % 60, 2).add(".");
  text.add_number(ns % 1000000000u, 9).add("Z");
}

bool wanted(const char* variable) {
  for (const char* start :
       {"MALLOC_", "GLIBC_TUNABLES=", "LD_PRELOAD=", "LD_LIBRARY_PATH=", "HEAPSPY_", "JAVA_TOOL_OPTIONS=", "JDK_JAVA_OPTIONS="})
    if (begins_with(variable, start)) return true;
  return false;
}

}  // namespace

void remember_start() {
  os::readlink("/proc/self/exe", exe_, sizeof exe_);
  environment_ = environ;
  if (!environment_) read_environment_from_proc();
  if (!environment_) environment_ = no_environment_;
}

char** environment() { return environment_; }

void keep_children_quiet(char* const* environment, bool quiet) {
  constexpr char kName[] = "HEAPSPY_CHILDREN=";
  for (char* const* variable = environment; variable && *variable; variable++) {
    char* value = *variable + sizeof kName - 1;
    if (begins_with(*variable, kName) && same(value, quiet ? "none" : kChildrenSkip))
      __builtin_memcpy(value, quiet ? kChildrenSkip : "none", sizeof kChildrenSkip - 1);
  }
}

const char* program() {
  const char* base = exe_;
  for (const char* at = exe_; *at; at++)
    if (*at == '/') base = at + 1;
  return *base ? base : "unknown";
}

bool remember_out(const char* pattern) {
  Text out(out_, sizeof out_);
  if (*pattern != '/') {
    if (os::failed(os::getcwd(scratch_, sizeof scratch_)) || scratch_[0] != '/')
      return message::trace_folder_gone(pattern), false;
    out.add(scratch_).add("/");
  }
  out.add(pattern);
  struct stat status {};
  const bool is_folder = out_[out.length() - 1] == '/' || (!os::stat(out_, &status) && S_ISDIR(status.st_mode));
  if (is_folder) out.add(out_[out.length() - 1] == '/' ? "" : "/").add(kDefaultName);
  return true;
}

void trace_path(char* to, size_t room, uint64_t start_realtime_ns) {
  Text path(to, room);
  for (const char* at = out_; *at; at++) {
    if (*at != '%' || !at[1]) {
      path.add(at, 1);
      continue;
    }
    switch (*++at) {
      case 'p': path.add_number(static_cast<uint64_t>(os::pid())); break;
      case 'n': path.add(program()); break;
      case 't': add_utc(path, start_realtime_ns); break;
      case 'h': {
        char host[65];
        os::host_name(host, sizeof host);
        path.add(host);
        break;
      }
      case '%': path.add("%"); break;
      default: path.add(at - 1, 2);
    }
  }
}

uint64_t rss_bytes() {
  char text[128];
  os::read_file("/proc/self/statm", text, sizeof text);
  const char* at = text;
  while (*at && *at != ' ') at++;
  uint64_t pages = 0;
  for (at += *at == ' '; *at >= '0' && *at <= '9'; at++) pages = pages * 10 + static_cast<uint64_t>(*at - '0');
  return pages * 4096;
}

void begin(TraceFile& file) {
  constexpr size_t kRoom = 512 << 10;
  static char first[8 << 10];
  TaggedPayload payload(first, sizeof first, kRoom);
  auto text = [&](ProcessTag tag, const char* value) { payload.add(static_cast<uint32_t>(tag), value, length_of(value)); };
  text(ProcessTag::exe, exe_);
  payload.begin(static_cast<uint32_t>(ProcessTag::command));
  payload.append_file("/proc/self/cmdline", 4 << 10, 128 << 10);
  payload.end();
  os::host_name(scratch_, sizeof scratch_);
  text(ProcessTag::host, scratch_);
  if (!os::failed(os::getcwd(scratch_, sizeof scratch_))) text(ProcessTag::working_folder, scratch_);
  payload.begin(static_cast<uint32_t>(ProcessTag::environment));
  for (char** variable = environment_; *variable; variable++)
    if (wanted(*variable)) payload.append(*variable, length_of(*variable) + 1);
  payload.end();
  text(ProcessTag::allocator, allocator_name());
  text(ProcessTag::allocator_version, allocator_version());
  text(ProcessTag::glibc_version, glibc_version());
  payload.begin(static_cast<uint32_t>(ProcessTag::cpus_online));
  payload.append_number(static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN)));
  payload.end();
  text(ProcessTag::trace_path, file.path());
  ChunkHeader chunk{};
  chunk.kind = ChunkKind::process;
  file.begin_with(chunk, {payload.data(), payload.bytes()});
}

}  // namespace heapspy::process_facts
