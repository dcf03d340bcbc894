// The right verdict: one report over the family (`heapspy report FOLDER`), shared against private. A server loads its data and
// then forks workers. All of them show the whole of it in their RSS, so the sum of RSS counts it once for each; what a worker
// costs is what it has written to since (private), and what it allocated itself.
//
// Each worker rewrites a part of what it inherited and keeps some blocks of its own. With --without, the workers only read.
//
// Arguments: MiB that the parent loads (default 64), workers (default 8), percent of it that each rewrites (default 25).
#include <sys/wait.h>

#include <vector>

#include "stage.h"

namespace {

constexpr std::size_t kRecordBytes = 2000;

std::vector<char*> records;

[[gnu::noinline]] char* load_record() {
  auto* record = static_cast<char*>(std::malloc(kRecordBytes));
  if (record == nullptr) std::abort();
  std::memset(record, 1, kRecordBytes);
  return record;
}

// A worker's life: it diverges from its parent, says so, and waits for the end.
[[noreturn]] void work(std::size_t rewritten, std::size_t own, int ready, int end) {
  for (std::size_t i = 0; i < rewritten; i++) std::memset(records[i], 2, kRecordBytes);
  for (std::size_t i = 0; i < own; i++) stage::keep(load_record());
  char byte = 0;
  if (write(ready, &byte, 1) != 1) std::exit(1);
  while (read(end, &byte, 1) > 0) {
  }
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[MIB [WORKERS [PERCENT]]] [--without]");
  const auto count = (static_cast<std::size_t>(arguments.get(0, 64)) << 20) / kRecordBytes;
  const long workers = arguments.get(1, 8);
  const std::size_t rewritten = arguments.without ? 0 : count * static_cast<std::size_t>(arguments.get(2, 25)) / 100;
  stage::say("at the start");
  for (std::size_t i = 0; i < count; i++) records.push_back(load_record());
  stage::say("the parent has loaded");

  int ready[2], end[2];
  if (pipe(ready) != 0 || pipe(end) != 0) return 1;
  for (long i = 0; i < workers; i++) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child > 0) continue;
    close(end[1]);
    work(rewritten, arguments.without ? 0 : count / 20, ready[1], end[0]);
  }
  close(end[0]);
  char byte;
  for (long i = 0; i < workers; i++)
    if (read(ready[0], &byte, 1) != 1) return 1;
  stage::say("the workers have diverged (this is the parent)");

  stage::hold(arguments);
  close(end[1]);
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  return failed ? 1 : 0;
}
