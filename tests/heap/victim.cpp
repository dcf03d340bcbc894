#include "tests/heap/victim.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "analyzer/process/live_process.h"
#include "analyzer/process/stopped_process.h"

namespace heapspy::heap_test {
namespace {

std::uint64_t number_after(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

}  // namespace

Victim::Victim(const std::string& shape, int threads, const std::vector<std::string>& variables, const std::string& folder) {
  int down[2], up[2];
  EXPECT_EQ(::pipe2(down, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(up, O_CLOEXEC), 0);
  const std::string program = std::string(HEAPSPY_VICTIMS) + "/known_heap", count = std::to_string(threads);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(down[0], 0);
    ::dup2(up[1], 1);
    for (const std::string& each : variables) ::putenv(const_cast<char*>(each.c_str()));
    const rlimit core{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_CORE, &core);
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    ::execl(program.c_str(), program.c_str(), shape.c_str(), count.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(down[0]);
  ::close(up[1]);
  to_ = down[1];
  from_ = up[0];
  bool after_build = false;
  for (std::string text = line(); text != "ready"; text = line()) {
    if (text == "<heap-of-victim>") after_build = true;
    if (text == "end of file") {
      ADD_FAILURE() << "the victim ended";
      return;
    }
    if (!after_build) continue;
    if (text.starts_with("<heap nr=")) truth_.arenas.emplace_back();
    if (text.starts_with("mallinfo2 ")) {
      truth_.totals = true;
      truth_.arena = number_after(text, " arena=");
      truth_.mapped_blocks = number_after(text, " hblks=");
      truth_.mapped_bytes = number_after(text, " hblkhd=");
      truth_.in_use = number_after(text, " uordblks=");
      truth_.free = number_after(text, " fordblks=");
      truth_.top = number_after(text, " keepcost=");
    }
    if (text == "</heap>") in_arena_ = false;
    if (text.starts_with("<heap nr=")) in_arena_ = true;
    if (!in_arena_ || truth_.arenas.empty()) continue;
    ArenaTruth& arena = truth_.arenas.back();
    if (text.starts_with("<total type=\"fast\"")) {
      arena.fast_chunks = number_after(text, "count=\"");
      arena.fast_bytes = number_after(text, " size=\"");
    }
    if (text.starts_with("<total type=\"rest\"")) {
      arena.rest_chunks = number_after(text, "count=\"");
      arena.rest_bytes = number_after(text, " size=\"");
    }
    if (text.starts_with("<system type=\"current\"")) arena.system_bytes = number_after(text, "size=\"");
    if (text.starts_with("<aspace type=\"subheaps\"")) arena.heaps = number_after(text, "size=\"");
  }
}

Victim::~Victim() { end(); }

void Victim::end() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(to_);
  ::close(from_);
  pid_ = 0;
}

std::string Victim::line() {
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string first = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return first;
    }
    char piece[4096];
    const ssize_t got = ::read(from_, piece, sizeof piece);
    if (got <= 0) return "end of file";
    unread_.append(piece, static_cast<std::size_t>(got));
  }
}

void Victim::trim() {
  EXPECT_EQ(::write(to_, "t", 1), 1);
  EXPECT_EQ(line(), "trimmed");
}

std::uint64_t Victim::anonymous_bytes() const {
  const auto totals = process::parse_rollup(process::LiveProcess(pid_).text("smaps_rollup"));
  return totals ? totals->anonymous_bytes : 0;
}

void Victim::abort_with_core() {
  ::kill(pid_, SIGABRT);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(to_);
  ::close(from_);
  pid_ = 0;
}

bool may_trace() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  bool may = true;
  try {
    const process::LiveProcess process(child);
    process::StoppedProcess stopped(process);
    may = stopped.pages(stopped.mappings().front().start, 1).has_value();
  } catch (const process::TargetError&) {
    may = false;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return may;
}

}  // namespace heapspy::heap_test
