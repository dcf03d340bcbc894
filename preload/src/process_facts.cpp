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

extern "C" __attribute__((weak)) void* __libc_stack_end;  // NOLINT: ld.so's name for it

namespace heapspy::process_facts {

using namespace format;

namespace {

constexpr char kDefaultName[] = "heapspy.%n.%p.%t.hspy";
// What outlives fork, text after text: most starts touch one page of it.
char kept_[2 * kMaxPath];
size_t kept_bytes_ = 0;
const char* exe_ = nullptr;
const char* out_ = nullptr;
char** environment_ = nullptr;
const char* arguments_ = nullptr;  // one after the other in memory, each ended by NUL; null: not known
size_t argument_bytes_ = 0;
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

// Where a text that is to be kept can be written; it is kept from `keep` on.
char* room_to_keep() { return kept_ + kept_bytes_; }
const char* keep(size_t length) {
  const char* text = room_to_keep();
  kept_bytes_ += length + 1;
  return text;
}

// Where the kernel put argc and argv, as ld.so has it. They lie there as /proc/self/cmdline shows them, and cost nothing to
// read: each file below /proc/PID costs ten microseconds, and as many again when the process ends.
void find_arguments() {
  if (!&__libc_stack_end || !__libc_stack_end) return;
  const auto* count = static_cast<const intptr_t*>(__libc_stack_end);
  const auto* arguments = reinterpret_cast<const char* const*>(count + 1);
  if (*count < 1 || *count > 1 << 20) return;
  const char* end = arguments[0];
  for (intptr_t i = 0; i < *count; i++) {
    if (!end || arguments[i] != end) return;
    end += length_of(end) + 1;
  }
  arguments_ = arguments[0];
  argument_bytes_ = static_cast<size_t>(end - arguments_);
}

const char* exe() {
  if (exe_) return exe_;
  const long length = os::readlink("/proc/self/exe", room_to_keep(), kMaxPath);
  return exe_ = keep(length > 0 ? static_cast<size_t>(length) : 0);
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
  find_arguments();
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
  const char* base = exe();
  for (const char* at = base; *at; at++)
    if (*at == '/') base = at + 1;
  return *base ? base : "unknown";
}

bool remember_out(const char* pattern) {
  char* path = room_to_keep();
  size_t folder_bytes = 0;
  if (*pattern != '/') {
    if (os::failed(os::getcwd(path, kMaxPath)) || path[0] != '/') return message::trace_folder_gone(pattern), false;
    folder_bytes = length_of(path);
  }
  Text out(path + folder_bytes, kMaxPath - folder_bytes);
  out.add(folder_bytes ? "/" : "").add(pattern);
  const bool ends_in_slash = pattern[length_of(pattern) - 1] == '/';
  struct stat status {};
  const bool is_folder = ends_in_slash || (!os::stat(path, &status) && S_ISDIR(status.st_mode));
  if (is_folder) out.add(ends_in_slash ? "" : "/").add(kDefaultName);
  out_ = keep(folder_bytes + out.length());
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

namespace {

void append_command(TaggedPayload& payload) {
  constexpr size_t kUsual = 4 << 10, kMost = 128 << 10;
  if (arguments_)
    payload.append(arguments_, argument_bytes_ < kMost ? argument_bytes_ : kMost - 1);
  else
    payload.append_file("/proc/self/cmdline", kUsual, kMost);
}

void append_working_folder(TaggedPayload& payload) {
  char* room = payload.extend(kMaxPath);
  if (!room) return;
  const long bytes = os::getcwd(room, kMaxPath);
  payload.shrink(kMaxPath - (os::failed(bytes) ? 0 : length_of(room)));
}

// What glibc counts before it makes another arena: from 2.34 on the CPUs that the process may run on, before that all.
uint64_t cpus() {
  if (glibc_minor_version() < 34) return static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  return os::cpus_allowed();
}

}  // namespace

void begin(TraceFile& file) {
  constexpr size_t kRoom = 512 << 10;
  static char first[12 << 10];
  TaggedPayload payload(first, sizeof first, kRoom);
  auto text = [&](ProcessTag tag, const char* value) { payload.add(static_cast<uint32_t>(tag), value, length_of(value)); };
  auto item = [&](ProcessTag tag, auto append) {
    payload.begin(static_cast<uint32_t>(tag));
    append();
    payload.end();
  };
  text(ProcessTag::exe, exe());
  item(ProcessTag::command, [&] { append_command(payload); });
  char host[65];
  os::host_name(host, sizeof host);
  text(ProcessTag::host, host);
  item(ProcessTag::working_folder, [&] { append_working_folder(payload); });
  item(ProcessTag::environment, [&] {
    for (char** variable = environment_; *variable; variable++)
      if (wanted(*variable)) payload.append(*variable, length_of(*variable) + 1);
  });
  text(ProcessTag::allocator, allocator_name());
  text(ProcessTag::allocator_version, allocator_version());
  text(ProcessTag::glibc_version, glibc_version());
  item(ProcessTag::cpus, [&] { payload.append_number(cpus()); });
  text(ProcessTag::trace_path, file.path());
  if (const char* front = front_name(); *front) text(ProcessTag::front, front);
  ChunkHeader chunk{};
  chunk.kind = ChunkKind::process;
  file.begin_with(chunk, {payload.data(), payload.bytes()});
}

}  // namespace heapspy::process_facts
