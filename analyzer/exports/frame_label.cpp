#include "analyzer/exports/frame_label.h"

#include <fmt/format.h>

namespace heapspy::exports {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string function_label(const report::FrameReport& frame) {
  if (!frame.function.empty()) return frame.function;
  if (frame.module.empty()) return fmt::format("[{:#x}]", frame.offset);
  return fmt::format("[{}+{:#x}]", file_name(frame.module), frame.offset);
}

std::string place_label(const report::FrameReport& frame) {
  std::string function = function_label(frame);
  if (!frame.file.empty() && frame.line) return fmt::format("{} ({}:{})", function, frame.file.str(), *frame.line);
  if (frame.is_java && frame.line) return fmt::format("{}:{}", function, *frame.line);
  if (!frame.file.empty()) return fmt::format("{} ({})", function, frame.file.str());
  if (frame.function.empty() || frame.module.empty()) return function;
  return fmt::format("{} ({})", function, file_name(frame.module));
}

}  // namespace heapspy::exports
