#include "tests/process/recording.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>

#include "analyzer/report/build.h"

namespace heapspy::test {
namespace {

namespace fs = std::filesystem;

std::string make_folder() {
  std::string pattern = (fs::temp_directory_path() / "heapspy-process-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  return fs::canonical(pattern).string();
}

std::vector<std::string> environment_of(const Launch& launch, const std::string& folder) {
  std::vector<std::string> environment;
  if (!launch.without_environment) {
    for (const char* name : {"PATH", "HOME", "JAVA_HOME"})
      if (const char* value = getenv(name)) environment.push_back(std::string(name) + "=" + value);
    environment.push_back("LC_ALL=C");
  }
  std::vector<std::string> preloads = launch.preload_before;
  if (launch.recorded) preloads.push_back(recorder_library());
  preloads.insert(preloads.end(), launch.preload_beneath.begin(), launch.preload_beneath.end());
  std::string list;
  for (const std::string& each : preloads) list += (list.empty() ? "" : ":") + each;
  if (!list.empty()) environment.push_back("LD_PRELOAD=" + list);
  if (launch.to_traces_folder && launch.recorded) environment.push_back("HEAPSPY_OUT=" + folder + "/traces/");
  for (const auto& [name, value] : launch.environment)
    environment.push_back(name + "=" + (value.starts_with("@") ? folder + value.substr(1) : value));
  return environment;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& each : texts) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

void replace_descriptor(int with, int number) {
  if (with == number) return;
  dup2(with, number);
  close(with);
}

}  // namespace

bool operator==(const Outcome& a, const Outcome& b) {
  return a.exit_status == b.exit_status && a.signal == b.signal && a.out == b.out && a.err == b.err;
}

std::ostream& operator<<(std::ostream& to, const Outcome& outcome) {
  if (outcome.signal)
    to << "signal " << outcome.signal;
  else
    to << "exit status " << outcome.exit_status;
  return to << ", stdout <<" << outcome.out << ">>, stderr <<" << outcome.err << ">>";
}

Recording::Recording(Launch launch) : launch_(std::move(launch)), folder_(make_folder()) {
  fs::create_directory(folder_ + "/traces");
  fs::permissions(folder_, fs::perms::all);
  fs::permissions(folder_ + "/traces", fs::perms::all);
  const std::string program =
      launch_.command.at(0).find('/') == std::string::npos ? installed(launch_.command[0]) : launch_.command[0];
  std::vector<std::string> arguments = launch_.command;
  std::vector<std::string> environment = environment_of(launch_, folder_);
  const std::vector<char*> argument_pointers = pointers_to(arguments), environment_pointers = pointers_to(environment);
  if (launch_.in_folder) {
    const fs::path here = fs::current_path();
    fs::current_path(folder_);
    launch_.in_folder();
    fs::current_path(here);
  }
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  if (launch_.talks && (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)))
    throw std::system_error(errno, std::generic_category(), "pipe");
  const std::string out = folder_ + "/.out", err = folder_ + "/.err";
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    setpgid(0, 0);
    if (chdir(folder_.c_str())) _exit(126);
    replace_descriptor(launch_.talks ? to[0] : open("/dev/null", O_RDONLY), 0);
    replace_descriptor(launch_.talks ? from[1] : open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
    replace_descriptor(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    if (launch_.before_exec) launch_.before_exec();
    execve(program.c_str(), argument_pointers.data(), environment_pointers.data());
    _exit(127);
  }
  setpgid(pid_, pid_);
  if (launch_.talks) {
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }
}

Recording::~Recording() {
  if (!outcome_) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Recording::read_line() {
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd wait = {from_, POLLIN, 0};
    char more[4096];
    const bool ready = poll(&wait, 1, static_cast<int>(launch_.limit_s * 1000)) > 0;
    const ssize_t got = ready ? read(from_, more, sizeof more) : 0;
    if (got <= 0) {
      if (!ready) ADD_FAILURE() << launch_.command[0] << " said nothing for " << launch_.limit_s << " s";
      return std::exchange(unread_, "");
    }
    unread_.append(more, static_cast<std::size_t>(got));
  }
}

std::string Recording::read_rest() {
  std::string rest = std::exchange(unread_, "");
  char more[65536];
  for (ssize_t got; (got = read(from_, more, sizeof more)) > 0;) rest.append(more, static_cast<std::size_t>(got));
  return rest;
}

void Recording::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ADD_FAILURE() << "the program reads no more";
}

// The wait status. A pidfd tells of the end without a signal or a clock.
int Recording::wait_for_end() {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd wait = {fd, POLLIN, 0};
  const int ready = poll(&wait, 1, static_cast<int>(launch_.limit_s * 1000));
  close(fd);
  if (ready <= 0) {
    ADD_FAILURE() << launch_.command[0] << " did not end within " << launch_.limit_s << " s";
    kill(-pid_, SIGKILL);
  }
  int status = 0;
  rusage usage{};
  wait4(pid_, &status, 0, &usage);
  peak_rss_bytes_ = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return status;
}

const Outcome& Recording::finish() {
  if (outcome_) return *outcome_;
  if (to_ >= 0) close(std::exchange(to_, -1));
  const int status = wait_for_end();
  Outcome outcome;
  if (WIFSIGNALED(status))
    outcome.signal = WTERMSIG(status);
  else
    outcome.exit_status = WEXITSTATUS(status);
  outcome.out = launch_.talks ? std::exchange(unread_, "") : content_of(folder_ + "/.out");
  outcome.err = content_of(folder_ + "/.err");
  outcome_ = outcome;
  return *outcome_;
}

std::vector<std::string> Recording::traces() const {
  std::vector<std::string> found;
  for (const std::string& where : {folder_ + "/traces", folder_})
    for (const auto& entry : fs::directory_iterator(where))
      if (entry.path().extension() == ".hspy") found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::string Recording::trace() const {
  const std::vector<std::string> all = traces();
  EXPECT_EQ(all.size(), 1u) << "traces of " << launch_.command[0];
  return all.empty() ? "" : all[0];
}

report::Report Recording::report() const { return report::build_report(trace()); }

report::Report Recording::report_in(const std::string& name) const { return report::build_report(file(name)); }

std::vector<report::Report> Recording::reports() const {
  std::vector<report::Report> all;
  report::BuildOptions options;
  options.sites.most = 0;  // symbols of the C library, a hundred times over
  for (const std::string& path : traces()) all.push_back(report::build_report(path, options));
  return all;
}

report::Report Recording::report_of(pid_t pid) const {
  std::vector<report::Report> found;
  for (const std::string& path : traces())
    if (static_cast<pid_t>(trace::Reader(path).process().pid) == pid) found.push_back(report::build_report(path));
  EXPECT_EQ(found.size(), 1u) << "traces of process " << pid;
  return found.empty() ? report::Report{} : found[0];
}

Compared expect_unchanged(Launch launch) {
  Compared compared;
  Launch plain = launch;
  plain.recorded = false;
  Recording without(std::move(plain));
  compared.plain = without.finish();
  compared.plain_peak_rss_bytes = without.peak_rss_bytes();
  compared.recording = std::make_unique<Recording>(std::move(launch));
  EXPECT_EQ(compared.recording->finish(), compared.plain) << "first: recorded, second: not";
  return compared;
}

report::ThreadReport thread_named(const report::Report& report, const std::string& name) {
  std::vector<report::ThreadReport> found;
  for (const report::ThreadReport& thread : report.threads)
    if (thread.name == name) found.push_back(thread);
  EXPECT_EQ(found.size(), 1u) << "threads named " << name;
  return found.empty() ? report::ThreadReport{} : found[0];
}

std::uint64_t calls(const report::Report& report, const std::string& entry_point) {
  for (const auto& [name, number] : report.totals.calls)
    if (name == entry_point) return number;
  ADD_FAILURE() << "the report counts no calls of " << entry_point;
  return 0;
}

void expect_whole(const report::Report& report) {
  EXPECT_EQ(report.trace.lost_events, 0u);
  for (const report::DamageReport& each : report.trace.damage)
    ADD_FAILURE() << "damage at " << each.offset << ": " << each.reason;
  EXPECT_EQ(report.trace.stop.value_or(""), "");
  EXPECT_TRUE(report.trace.complete);
}

std::string victim(const std::string& name) { return std::string(HEAPSPY_VICTIMS) + "/" + name; }
std::string victim_library(const std::string& name) { return std::string(HEAPSPY_VICTIMS) + "/lib" + name + ".so"; }
std::string victim_source(const std::string& name) { return std::string(HEAPSPY_VICTIM_SOURCES) + "/" + name; }
std::string recorder_library() { return HEAPSPY_RECORDER; }
std::string heapspy_program() { return HEAPSPY_PROGRAM; }

std::string installed(const std::string& program) {
  const char* path = getenv("PATH");
  std::string rest = path ? path : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', at), rest.size());
    const std::string candidate = rest.substr(at, end - at) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

std::string installed_library(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const char* where :
         {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/", "/usr/lib/", "/usr/local/lib/"})
      if (fs::exists(where + name)) return where + name;
  return "";
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace heapspy::test
