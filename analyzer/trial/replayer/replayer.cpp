// Plays the calls of a trace again under whatever allocator this process was started with, and says what the heap took.
// usage: heapspy-replayer OPERATIONS [trim_us=N] [first_trim_us=N] [pace=X] [order=total|window|bare] [count] [pause_at=N]
// [pause]
//
// Everything of its own lies in shared memory (memfd) or in file mappings, the threads' stacks, too: private anonymous memory
// beyond what was there at the start is the allocator's.
//
// Results are lines on the standard output: "curve TIME_US BYTES", then a name and a number each. With `count` the calls for
// memory that the kernel gets are counted (memory_calls.h). It waits for a byte on its standard input before operation N, after
// "paused 1", and with `pause` at the end, after "paused 2", so that it can be looked at from outside.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory_calls.h"
#include "own_memory.h"
#include "session.h"

using namespace heapspy::trial;

namespace {

// glibc's own description of its arenas. Allocates: after the last measurement.
long count_arenas() {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* file = open_memstream(&text, &bytes);
  if (!file || malloc_info(0, file) != 0 || fclose(file) != 0 || !text) return -1;
  long arenas = 0;
  for (const char* at = text; (at = strstr(at, "<heap nr=")); at++) arenas++;
  return arenas;
}

struct Wishes {
  double pace = 1;
  bool windows = false, bare = false, pause = false, count = false;
};

bool take(const char* word, Session& session, Wishes& wishes) {
  if (strncmp(word, "trim_us=", 8) == 0) return session.trim_us = strtoull(word + 8, nullptr, 10), true;
  if (strncmp(word, "first_trim_us=", 14) == 0) return session.first_trim_us = strtoull(word + 14, nullptr, 10), true;
  if (strncmp(word, "pace=", 5) == 0) return wishes.pace = strtod(word + 5, nullptr), true;
  if (strcmp(word, "order=window") == 0) return wishes.windows = true;
  if (strcmp(word, "order=bare") == 0) return wishes.bare = true;
  if (strcmp(word, "order=total") == 0) return true;
  if (strcmp(word, "count") == 0) return wishes.count = true;
  if (strncmp(word, "pause_at=", 9) == 0) return session.pause_at = strtoull(word + 9, nullptr, 10), true;
  return strcmp(word, "pause") == 0 && (wishes.pause = true);
}

void say(const char* name, uint64_t number) {
  dprintf(STDOUT_FILENO, "%s %llu\n", name, static_cast<unsigned long long>(number));
}

void say_counts(const memory_calls::Counts& before, const memory_calls::Counts& after) {
  say("brk", after.brk - before.brk);
  say("mmap", after.mmap - before.mmap);
  say("munmap", after.munmap - before.munmap);
  say("mremap", after.mremap - before.mremap);
  say("mprotect", after.mprotect - before.mprotect);
  say("madvise", after.madvise - before.madvise);
}

}  // namespace

int main(int count, char** words) {
  static Session session;
  Wishes wishes;
  bool understood = count >= 2;
  for (int i = 2; i < count; i++) understood = understood && take(words[i], session, wishes);
  if (!understood)
    return dprintf(STDERR_FILENO,
                   "usage: heapspy-replayer OPERATIONS [trim_us=N] [pace=X] [order=window]; heapspy replay starts it\n"),
           2;
  if (strcmp(words[1], "none") == 0) {  // to know what this process has without any call
    session.heap.begin(0);
    say("baseline", session.heap.baseline());
    _exit(0);
  }
  session.calls.map(words[1]);
  session.begin(wishes.pace);
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  const uint64_t began = real_ns(), cpu_began = cpu_ns();
  if (wishes.count && !memory_calls::begin()) wishes.count = false;
  const memory_calls::Counts calls_before = memory_calls::counts();
  const uint64_t mappings_before = own_mappings();
  wishes.bare ? play_bare(session) : wishes.windows ? play_in_windows(session) : play_in_total_order(session);
  memory_calls::Counts memory_calls = memory_calls::counts();
  memory_calls.mmap -= own_mappings() - mappings_before;
  const uint64_t end = session.heap.measure();
  const uint64_t wall = real_ns() - began, cpu = cpu_ns() - cpu_began, own = session.heap.own_cpu_ns();
  getrusage(RUSAGE_SELF, &after);
  for (uint32_t i = 0; i < session.heap.points(); i++)
    dprintf(STDOUT_FILENO, "curve %llu %llu\n", static_cast<unsigned long long>(session.heap.point(i).time_us),
            static_cast<unsigned long long>(session.heap.point(i).bytes));
  say("baseline", session.heap.baseline());
  say("peak", session.heap.peak());
  say("peak_operation", session.heap.peak_operation());
  say("end", end);
  say("operations", session.calls.header().calls);
  say("failed", session.calls.failed());
  say("wall_us", (wall > own ? wall - own : 0) / 1000);
  say("cpu_us", (cpu > own ? cpu - own : 0) / 1000);
  say("faults", static_cast<uint64_t>(after.ru_minflt - before.ru_minflt));
  if (session.at_once) say("lock_waits", session.lock_waits);
  if (wishes.count) say_counts(calls_before, memory_calls);
  if (wishes.pause) Session::pause("2");
  if (const long arenas = count_arenas(); arenas >= 0) say("arenas", static_cast<uint64_t>(arenas));
  _exit(0);
}
