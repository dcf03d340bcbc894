// How a frame is called where a format has one text for it.
#pragma once
#include <string>

#include "analyzer/report/report.h"

namespace heapspy::exports {

// The function; without one the module's file name and offset, "[libz.so.1+0x4f20]".
std::string function_label(const report::FrameReport&);
// The function and where it is: "fill (src/shop.cpp:20)", "deflate (libz.so.1)".
std::string place_label(const report::FrameReport&);
std::string file_name(const std::string& path);

}  // namespace heapspy::exports
