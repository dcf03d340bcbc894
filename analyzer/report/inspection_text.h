// An inspection as text, at most kWidth columns; the conclusion first.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "analyzer/report/inspection_json.h"
#include "analyzer/report/screen.h"

namespace heapspy::report {

std::vector<std::string> inspection_lines(const Inspection&, const Screen&);

// pins_text.cpp: who holds pinned bytes, by block size and (of a recorded process) by call stack
std::vector<std::string> pin_lines(const Inspection&, const Screen&);

// heap_text.cpp
std::vector<std::string> bin_lines(const heap::TakenApart&, const Screen&);
// The heap that holds `address`, page by page; empty: there is none.
std::vector<std::string> heap_map_lines(const heap::TakenApart&, std::uint64_t address, const Screen&);
// One line per chunk, written as it goes: there may be millions.
void print_chunks(const heap::TakenApart&, const InspectionDetail&, std::FILE* to);

}  // namespace heapspy::report
