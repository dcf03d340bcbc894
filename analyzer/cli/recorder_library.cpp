#include "analyzer/cli/recorder_library.h"

#include <fmt/core.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "analyzer/cli/command.h"

namespace heapspy::cli {
namespace {

std::string own_folder() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return path.substr(0, path.rfind('/'));
}

}  // namespace

std::vector<std::string> library_folders(const std::string& folder) {
  const std::string above = folder.substr(0, folder.rfind('/'));
  std::vector<std::string> folders = {above + "/lib", above + "/lib64"};
  glob_t names{};
  if (::glob((above + "/lib/*-linux-gnu*").c_str(), 0, nullptr, &names) == 0)
    for (std::size_t i = 0; i < names.gl_pathc; i++) folders.emplace_back(names.gl_pathv[i]);
  ::globfree(&names);
  folders.push_back(folder);
  return folders;
}

std::string find_recorder_library() {
  const std::string folder = own_folder();
  for (const std::string& each : library_folders(folder)) {
    const std::string path = each + "/libheapspy.so";
    if (::access(path.c_str(), R_OK) != 0) continue;
    const std::unique_ptr<char, decltype(&std::free)> plain(::realpath(path.c_str(), nullptr), &std::free);
    std::string found = plain ? plain.get() : path;
    if (found.find_first_of(": ") != std::string::npos)
      throw Failure(
          ExitStatus::unreadable,
          fmt::format("LD_PRELOAD cannot name {}: its path has a space or a colon; install heapspy elsewhere", found));
    return found;
  }
  throw Failure(ExitStatus::unreadable,
                fmt::format("libheapspy.so is not beside heapspy (looked in {} and its like); build or install both",
                            library_folders(folder).front()));
}

std::string find_replayer() {
  const std::string folder = own_folder();
  for (const std::string& each : library_folders(folder)) {
    std::string path = each + "/heapspy-replayer";
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  throw Failure(ExitStatus::unreadable,
                fmt::format("heapspy-replayer is not beside heapspy (looked in {} and its like); build or install both",
                            library_folders(folder).front()));
}

std::string preload_first(const std::string& library, const std::string& present) {
  return present.empty() ? library : library + ":" + present;
}

}  // namespace heapspy::cli
