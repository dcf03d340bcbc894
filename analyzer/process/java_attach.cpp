#include "analyzer/process/java_attach.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "analyzer/process/mappings.h"

namespace heapspy::process {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr milliseconds kLookAgain{20};

[[noreturn]] void refuse(const std::string& line) { throw TargetError(TargetError::Reason::refused, line); }

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// As the JVM itself names it, in its own file system.
std::string own_path(const LiveProcess& process, const char* kind) {
  const Status status = process.status();
  const std::uint32_t pid = status.namespace_pid.value_or(static_cast<std::uint32_t>(process.pid()));
  return fmt::format("/proc/{}/root/tmp/.{}{}", process.pid(), kind, pid);
}

int connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

bool is_socket(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

// Makes a JVM that has not been asked before listen: it looks for this file when SIGQUIT comes.
void call_up(const LiveProcess& process, const std::string& socket, Clock::time_point until) {
  const std::string asking = own_path(process, "attach_pid");
  const int fd = ::open(asking.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    refuse(fmt::format("{} cannot be created: {}; run heapspy as the user of that JVM", asking, std::strerror(errno)));
  ::close(fd);
  ::kill(process.pid(), SIGQUIT);
  while (!is_socket(socket) && Clock::now() < until && process.alive()) {
    const timespec some{0, std::chrono::nanoseconds(kLookAgain).count()};
    ::nanosleep(&some, nullptr);
  }
  ::unlink(asking.c_str());
}

bool wait_for(int fd, short what, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd polled{fd, what, 0};
    const int got = ::poll(&polled, 1, static_cast<int>(std::min<long>(left, 1 << 30)));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool listens_to_attach(const LiveProcess& process) {
  if (!(process.status().caught >> (SIGQUIT - 1) & 1)) return false;  // -Xrs, or not up yet: the signal would end it
  const auto command = process.command();
  if (std::find(command.begin(), command.end(), "-XX:+DisableAttachMechanism") != command.end()) return false;
  const MappingList maps = parse_mappings(process.text("maps"));
  return std::any_of(maps.mappings.begin(), maps.mappings.end(),
                     [](const Mapping& m) { return m.name.find("/libjvm.so") != std::string::npos; });
}

// "1", "jcmd", the command and two more arguments, each ended by a zero byte; back come a status in a line, and text.
JavaAnswer java_command(const LiveProcess& process, const std::string& command, milliseconds patience) {
  const auto begin = Clock::now(), until = begin + patience;
  const std::string socket = own_path(process, "java_pid");
  if (!is_socket(socket)) call_up(process, socket, until);
  const File connection(connected(socket));
  if (connection.fd() < 0) {
    if (!process.alive()) throw TargetError(TargetError::Reason::gone, fmt::format("process {} has ended", process.pid()));
    refuse(fmt::format("the JVM {} did not open {} within {:g} s", process.pid(), socket,
                       std::chrono::duration<double>(patience).count()));
  }
  const std::string request = std::string("1\0jcmd\0", 7) + command + std::string("\0\0\0", 3);
  const auto asked = Clock::now();
  if (::send(connection.fd(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    refuse(fmt::format("the JVM {} did not take a command: {}", process.pid(), std::strerror(errno)));
  std::string answer;
  for (;;) {
    if (!wait_for(connection.fd(), POLLIN, until))
      refuse(fmt::format("the JVM {} did not answer {} within {:g} s; --timeout gives it longer", process.pid(), command,
                         std::chrono::duration<double>(patience).count()));
    char piece[4096];
    const ssize_t got = ::read(connection.fd(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.append(piece, static_cast<std::size_t>(got));
  }
  if (answer.empty()) refuse(fmt::format("the JVM {} closed the connection; run heapspy as its user", process.pid()));
  const std::size_t line = answer.find('\n');
  JavaAnswer result;
  result.seconds = std::chrono::duration<double>(Clock::now() - asked).count();
  result.done = answer.substr(0, line) == "0";
  result.text = line == std::string::npos ? "" : answer.substr(line + 1);
  return result;
}

}  // namespace heapspy::process
