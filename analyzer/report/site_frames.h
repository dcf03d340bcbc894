// Frames as people read them: which of a stack's frames says most, and how it is written.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

// Of an allocator, of a wrapper around one, of a standard library, or what calls main(): says nothing about why memory was
// asked for.
bool is_plumbing(const FrameReport&);
// The innermost frame that is none of these; the innermost of all where every one is. Where it has no name, one next to it in
// the same library that has one. 0 for no frames.
std::size_t telling_frame(const std::vector<FrameReport>&);

// Without parameters and with long template arguments left out: "shop::Basket<…>::add"; "" stays so.
std::string short_function(const std::string& function);
// The last folders of a path: "src/net/reader.cpp".
std::string short_path(const std::string& path);
// "reader.cpp:120", "libz.so.1+0x4f20", "0x7f12…": where the frame is, as short as is clear.
std::string place_text(const FrameReport&);
// "fill at src/shop.cpp:20", "libz.so.1+0x4f20": printable.
std::string frame_text(const FrameReport&);

// The frame that tells most, printable; where Java code called native code, with the innermost Java frame that is not the
// JDK's: "inflate (libz.so.1) for shop.Basket.read:42".
std::string site_text(const std::vector<FrameReport>&);
// As findings have it: "fill (src/shop.cpp:20)"; "" for no frames.
std::string where_text(const std::vector<FrameReport>&);

}  // namespace heapspy::report
