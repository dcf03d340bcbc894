#include "analyzer/report/site_book.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "analyzer/report/site_frames.h"

namespace heapspy::report {
namespace {

// Where the process itself could open its files, for containers: as long as it runs.
symbols::SearchPaths with_own_root(const trace::Reader& reader, symbols::SearchPaths search) {
  if (reader.process().running) search.roots.push_back(fmt::format("/proc/{}/root", reader.process().pid));
  return search;
}

const char* state_word(symbols::FoundModule::State state) {
  switch (state) {
    case symbols::FoundModule::State::found: return "found";
    case symbols::FoundModule::State::changed: return "changed";
    default: return "missing";
  }
}

}  // namespace

std::string perf_map_of(const trace::Reader& reader, const symbols::SearchPaths& search) {
  const std::string name = fmt::format("/perf-{}.map", reader.process().pid);
  std::vector<std::string> folders = search.extra;
  for (const std::string& root : search.roots) folders.push_back(root + "/tmp");
  for (const std::string& folder : folders)
    if (::access((folder + name).c_str(), R_OK) == 0) return folder + name;
  return "/tmp" + name;
}

const char* end_word(trace::StackEnd end) {
  switch (end) {
    case trace::StackEnd::whole: return "whole";
    case trace::StackEnd::depth: return "depth";
    case trace::StackEnd::no_rule: return "no rule";
    case trace::StackEnd::bad_stack: return "bad stack";
    default: return "unknown";
  }
}

std::vector<FrameReport> frames_at(const symbols::Place& place, const std::vector<symbols::Module>& modules,
                                   const symbols::Symbolizer& symbolizer) {
  FrameReport plain;
  if (place.module < modules.size()) plain.module = modules[place.module].path;
  plain.offset = place.address;
  const symbols::Locations& locations = symbolizer.at(place);
  if (locations.empty()) return {plain};
  std::vector<FrameReport> frames;
  for (const symbols::Location& location : locations) {
    FrameReport& to = frames.emplace_back(plain);
    to.function = location.function;
    to.file = location.file;
    if (location.line) to.line = location.line;
    to.inlined = &location != &locations.back();
  }
  return frames;
}

std::vector<ModuleReport> module_reports(const std::vector<symbols::Module>& modules, const symbols::Symbolizer& symbolizer) {
  std::vector<ModuleReport> reports;
  for (std::uint32_t i = 0; i < modules.size(); i++)
    if (const auto& state = symbolizer.state(i))
      reports.push_back({modules[i].path, symbols::build_id_text(modules[i].build_id), state_word(state->file),
                         state->debug_info, state->symbols});
  std::sort(reports.begin(), reports.end(), [](const ModuleReport& a, const ModuleReport& b) { return a.path < b.path; });
  return reports;
}

std::vector<symbols::Module> SiteBook::modules_of(const trace::Reader& reader) {
  std::vector<symbols::Module> modules;
  for (const trace::Image& image : reader.stacks().images()) {
    std::string path = image.path.empty() ? reader.process().exe : image.path;
    if (!path.empty() && path[0] != '/' && path.find('/') != std::string::npos)
      path = reader.process().working_folder + "/" + path;
    modules.push_back({std::move(path), image.build_id});
  }
  return modules;
}

SiteBook::SiteBook(const trace::Reader& reader, const symbols::SearchPaths& search)
    : reader_(reader),
      modules_(modules_of(reader)),
      symbolizer_(modules_, with_own_root(reader, search), perf_map_of(reader, search), reader.process().start_realtime_ns) {}

symbols::Place SiteBook::place_of(const trace::StackFrame& frame) const {
  return {frame.image == trace::kNoImage ? symbols::kNoModule : frame.image, frame.address, !frame.interrupted};
}

void SiteBook::want(trace::SiteId site) {
  for (const trace::StackFrame& frame : reader_.stacks().stack(site).frames) {
    if (frame.method != trace::kNoMethod) continue;
    const symbols::Place place = place_of(frame);
    if (frames_.try_emplace(place).second) symbolizer_.want(place);
  }
}

void SiteBook::look_up(const std::function<void(const std::string&)>& progress) {
  symbolizer_.look_up(progress);
  for (auto& [place, frames] : frames_)
    if (frames.empty()) frames = frames_at(place, modules_, symbolizer_);
}

FrameReport java_frame(std::string method) {
  FrameReport frame;
  const std::size_t line = method.rfind("):");  // shop.Cart.add(int):12
  if (line != std::string::npos) {
    unsigned number = 0;  // whatever a damaged trace has there
    if (std::from_chars(method.data() + line + 2, method.data() + method.size(), number).ec == std::errc()) frame.line = number;
    method.resize(line + 1);
  }
  frame.function = method;
  frame.is_java = true;
  return frame;
}

std::vector<FrameReport> SiteBook::frames(trace::SiteId site) const {
  std::vector<FrameReport> frames;
  for (const trace::StackFrame& frame : reader_.stacks().stack(site).frames) {
    if (frame.method == trace::kNoMethod) {
      const auto known = frames_.find(place_of(frame));
      if (known == frames_.end() || known->second.empty())
        frames.push_back(frames_at(place_of(frame), modules_, symbolizer_).front());
      else
        frames.insert(frames.end(), known->second.begin(), known->second.end());
      continue;
    }
    frames.push_back(java_frame(reader_.stacks().methods()[frame.method]));
    frames.back().offset = frame.method;
  }
  return frames;
}

std::string SiteBook::end_word(trace::SiteId site) const { return report::end_word(reader_.stacks().stack(site).end); }

std::string SiteBook::where(trace::SiteId site) const { return where_text(frames(site)); }

std::vector<ModuleReport> SiteBook::modules() const { return module_reports(modules_, symbolizer_); }

}  // namespace heapspy::report
