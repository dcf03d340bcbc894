// Where commands that name call stacks look for symbols: the same flags for each of them.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "analyzer/symbols/module_file.h"

namespace heapspy::cli {

struct SymbolOptions {
  std::vector<std::string> sysroots, extra_paths;
  bool debuginfod = false, no_cache = false;
};

// `options` must outlive the command.
void add_symbol_options(CLI::App* command, SymbolOptions& options);
// Throws Failure where a folder that was given is none.
symbols::SearchPaths search_paths(const SymbolOptions&);

}  // namespace heapspy::cli
