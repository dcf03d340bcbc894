#include "tests/cli/program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analyzer/process/child_process.h"

namespace heapspy::cli_test {
namespace {

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::string bin_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }
bool recorder_is_there() { return std::filesystem::exists(bin_folder() + "/../lib/libheapspy.so"); }

Ran heapspy(const std::vector<std::string>& arguments, const std::vector<std::string>& variables) {
  char name[] = "/var/tmp/heapspy-test-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  std::string line = "exec env XDG_CACHE_HOME=" + folder;
  for (const std::string& each : variables) line += " " + quoted(each);
  line += " " + quoted(bin_folder() + "/heapspy");
  for (const std::string& each : arguments) line += " " + quoted(each);
  line += " >" + folder + "/out 2>" + folder + "/err </dev/null";
  int status = 0;
  ::waitpid(process::start_child({{"sh", "-c", line}, {}, process::ChildOutput::inherit}), &status, 0);
  Ran ran{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), content(folder + "/out"),
          content(folder + "/err")};
  std::filesystem::remove_all(folder);
  return ran;
}

}  // namespace heapspy::cli_test
