#include "cgroup.h"

#include "os.h"
#include "text.h"
#include "trace_file.h"

namespace heapspy::cgroup {

namespace {

// Its own folder: version 2 ("0::/path") or 1 ("N:memory:/path"). The process may be moved, so it is looked up each time.
struct Folder {
  bool version_1 = false;
  char path[kMaxPath] = {};
};
Folder folder;
// The group that CPU time is charged to, and how much of its path is where the groups' files begin.
struct CpuFolder {
  char path[kMaxPath] = {};
  size_t root_bytes = 0;
};
CpuFolder cpu;
char text[4096];

// Where a line "N:cpu,cpuacct:/path" of version 1 names this controller: the path. nullptr: it does not.
const char* path_of_controller(const char* line, const char* controller) {
  while (*line && *line != ':') line++;
  while (*line == ':' || *line == ',') {
    const char* name = ++line;
    while (*line && *line != ':' && *line != ',') line++;
    const size_t length = static_cast<size_t>(line - name);
    const bool named = length == length_of(controller) && begins_with(name, controller);
    if (!named && *line != ':') continue;
    while (named && *line && *line != ':') line++;
    return named && *line ? line + 1 : nullptr;
  }
  return nullptr;
}

void set_cpu_folder(const char* root, const char* path) {
  cpu.root_bytes = length_of(root);
  Text(cpu.path, sizeof cpu.path).add(root).add(path);
}

void find_folder() {
  folder.version_1 = false;
  folder.path[0] = cpu.path[0] = 0;
  bool cpu_version_1 = false;
  if (!os::read_file("/proc/self/cgroup", text, sizeof text)) return;
  for (char* line = text; *line;) {
    char* end = line;
    while (*end && *end != '\n') end++;
    const bool last = !*end;
    *end = 0;
    if (begins_with(line, "0::") && !folder.version_1)
      Text(folder.path, sizeof folder.path).add("/sys/fs/cgroup").add(line + 3);
    if (begins_with(line, "0::") && !cpu_version_1) set_cpu_folder("/sys/fs/cgroup", line + 3);
    if (const char* path = path_of_controller(line, "cpu")) {
      set_cpu_folder("/sys/fs/cgroup/cpu", path);
      cpu_version_1 = true;
    }
    for (char* at = line; *at; at++)
      if (begins_with(at, ":memory:")) {
        Text(folder.path, sizeof folder.path).add("/sys/fs/cgroup/memory").add(at + 8);
        folder.version_1 = true;
      }
    line = last ? end : end + 1;
  }
}

// "max" and what is not there are 0.
uint64_t number_in(const Files& files, const char* name) {
  static char file[kMaxPath];
  char digits[32] = {};
  if (!path(files, name, file, sizeof file) || !os::read_file(file, digits, sizeof digits)) return 0;
  uint64_t value = 0;
  for (const char* at = digits; *at >= '0' && *at <= '9'; at++) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return value;
}

}  // namespace

Files files() {
  find_folder();
  if (folder.version_1)
    return {true, {"memory.usage_in_bytes", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.stat", nullptr}};
  return {false, {"memory.current", "memory.max", "memory.peak", "memory.swap.current", "memory.stat"}};
}

bool path(const Files&, const char* name, char* to, size_t room) {
  if (!folder.path[0]) return false;
  Text(to, room).add(folder.path).add("/").add(name);
  return true;
}

bool cpu_folder(unsigned above, char* to, size_t room) {
  size_t length = length_of(cpu.path);
  if (length == cpu.root_bytes + 1) length--;  // its path is "/"
  for (; above && length > cpu.root_bytes; above--)
    while (cpu.path[--length] != '/') {
    }
  if (above || !length) return false;
  Text(to, room).add(cpu.path, length);
  return true;
}

Usage usage() {
  const Files all = files();
  return {number_in(all, all.names[0]), number_in(all, all.names[1])};
}

}  // namespace heapspy::cgroup
