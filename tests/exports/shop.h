// A report of two sites, with inlining, a file without lines, and code without a module.
#pragma once
#include "analyzer/report/report.h"

namespace heapspy::test {

inline report::FrameReport frame(const char* function, const char* file, std::uint64_t line, const char* module,
                                 std::uint64_t offset, bool inlined = false) {
  report::FrameReport frame;
  frame.function = function;
  frame.file = file;
  if (line) frame.line = line;
  frame.module = module;
  frame.offset = offset;
  frame.inlined = inlined;
  return frame;
}

inline report::Report shop_report() {
  report::Report report;
  report.trace.stacks = "dwarf";
  report.process.pid = 77;
  report.process.exe = "/srv/shop";
  report.process.command = {"shop", "--open"};
  report.process.duration_s = 2.5;
  report.totals.peak_time_s = 1.5;
  report.at.time_s = 1.5;

  report::SiteReport fill;
  fill.id = 1;
  fill.frames = {frame("push", "vector.h", 10, "/srv/shop", 0x1110, true), frame("fill", "shop.cpp", 20, "/srv/shop", 0x1110),
                 frame("", "", 0, "/lib/libz.so.1", 0x4f20), frame("main", "shop.cpp", 5, "/srv/shop", 0x1200)};
  fill.allocations = 10;
  fill.bytes = 1000;
  fill.live_bytes = 300, fill.live_blocks = 3;
  fill.peak_bytes = 400, fill.peak_blocks = 4;
  fill.most_bytes = 500, fill.most_blocks = 5;
  fill.end_live_bytes = 200, fill.end_live_blocks = 2;
  fill.temporary = 1;
  fill.pinned_bytes = 64;
  fill.lifetimes_s = 0.25;
  fill.threads = {1, 2};

  report::SiteReport made;
  made.id = 2;
  made.frames = {frame("Script::a;b \"c\"", "", 0, "", 0x7f0000001000), frame("main", "shop.cpp", 6, "/srv/shop", 0x1210)};
  made.allocations = 1;
  made.bytes = 50;
  made.live_bytes = 0, made.live_blocks = 0;
  made.end_live_bytes = 0, made.end_live_blocks = 0;
  made.threads = {1};
  report.sites = {fill, made};
  report.modules = {{"/srv/shop", "abcd", "found", true, true}, {"/lib/libz.so.1", "ef01", "missing", false, false}};

  report::PointReport point;
  point.time_s = 0.5;
  point.live_bytes = 350;
  point.rss_bytes = 4096;
  report.timeline = {point};
  return report;
}

}  // namespace heapspy::test
