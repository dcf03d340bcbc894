// Finds the file that a module of a trace was, and its debug information, on this machine: only ever the very same build.
#pragma once
#include <string>
#include <vector>

namespace heapspy::symbols {

// A library or program as the trace names it.
struct Module {
  std::string path;      // absolute
  std::string build_id;  // raw bytes; empty: it had none, and nothing can be checked
};

struct SearchPaths {
  std::vector<std::string> roots;  // folders in which the recorded machine's file tree stands (--sysroot); before "/"
  std::vector<std::string> extra;  // folders with such files, by name, path or build-id (--extra-paths)
  bool debuginfod = false;         // ask the servers in $DEBUGINFOD_URLS for what is not found
  std::string cache{};             // folder of what was looked up before (symbol_cache.h); empty: none
};

struct FoundModule {
  enum class State {
    found,
    changed,  // there is a file at its path, of another build
    missing,
  };
  State state = State::missing;
  std::string binary;  // empty unless found; may be the debug file, where only that is there
  std::string debug;   // separate file with debug information, found by build-id; empty: none (but there may be a debug link)
};

FoundModule find_module(const Module&, const SearchPaths&);

// Raw bytes of the build-id of an ELF file; empty where it has none. False: it is no readable ELF file.
bool read_build_id(const std::string& path, std::string& to);

// "a1b2…", as tools print it.
std::string build_id_text(const std::string& raw);

// Folders in which debug files lie by build-id or by the path of their binary, most specific first.
std::vector<std::string> debug_folders(const SearchPaths&);

}  // namespace heapspy::symbols
