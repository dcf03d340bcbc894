#include "analyzer/cli/symbol_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "analyzer/cli/command.h"
#include "analyzer/report/printable.h"

namespace heapspy::cli {
namespace {

std::string folder_named(std::string path, const char* flag) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    throw Failure(ExitStatus::wrong_usage,
                  fmt::format("{}: {} is no folder{}; give one that exists", flag, report::printable(path),
                              error && error != std::errc::no_such_file_or_directory ? " (" + error.message() + ")" : ""));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path == "/" ? "" : path;
}

// The XDG base directory specification: relative paths are ignored.
std::string cache_folder() {
  const auto absolute = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value && *value == '/' ? value : "";
  };
  if (const std::string cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache + "/heapspy/symbols";
  const std::string home = absolute("HOME");
  return home.empty() ? "" : home + "/.cache/heapspy/symbols";
}

}  // namespace

void add_symbol_options(CLI::App* command, SymbolOptions& options) {
  command
      ->add_option("--sysroot", options.sysroots,
                   "a copy of the recorded machine's file tree: programs and libraries are looked for there")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      ->add_option("--extra-paths", options.extra_paths,
                   "folders with programs, libraries and debug files (by name or build-id), separated by colons")
      ->type_name("DIRS")
      ->allow_extra_args(false);
  command->add_flag("--debuginfod", options.debuginfod, "ask the servers in $DEBUGINFOD_URLS for debug information");
  command->add_flag("--no-symbol-cache", options.no_cache,
                    "neither use nor keep what was read of debug information in $XDG_CACHE_HOME/heapspy (~/.cache/heapspy)");
}

symbols::SearchPaths search_paths(const SymbolOptions& options) {
  symbols::SearchPaths search;
  for (const std::string& path : options.sysroots) search.roots.push_back(folder_named(path, "--sysroot"));
  for (const std::string& paths : options.extra_paths)  // as PATH
    for (std::size_t at = 0; at <= paths.size();) {
      const std::size_t colon = std::min(paths.find(':', at), paths.size());
      if (colon > at) search.extra.push_back(folder_named(paths.substr(at, colon - at), "--extra-paths"));
      at = colon + 1;
    }
  search.debuginfod = options.debuginfod;
  if (!options.no_cache) search.cache = cache_folder();
  return search;
}

}  // namespace heapspy::cli
