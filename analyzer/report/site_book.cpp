#include "analyzer/report/site_book.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "analyzer/report/site_frames.h"

namespace heapspy::report {
namespace {

// Where the process itself could open its files, for containers: as long as it runs.
symbols::SearchPaths with_own_root(const trace::Reader& reader, symbols::SearchPaths search) {
  if (reader.process().running) search.roots.push_back(fmt::format("/proc/{}/root", reader.process().pid));
  return search;
}

std::string perf_map_of(const trace::Reader& reader, const symbols::SearchPaths& search) {
  const std::string name = fmt::format("/perf-{}.map", reader.process().pid);
  std::vector<std::string> folders = search.extra;
  for (const std::string& root : search.roots) folders.push_back(root + "/tmp");
  for (const std::string& folder : folders)
    if (::access((folder + name).c_str(), R_OK) == 0) return folder + name;
  return "/tmp" + name;
}

const char* state_word(symbols::FoundModule::State state) {
  switch (state) {
    case symbols::FoundModule::State::found: return "found";
    case symbols::FoundModule::State::changed: return "changed";
    default: return "missing";
  }
}

}  // namespace

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
  for (const trace::StackFrame& frame : reader_.stacks().stack(site).frames)
    if (frame.method == trace::kNoMethod) symbolizer_.want(place_of(frame));
}

void SiteBook::look_up(const std::function<void(const std::string&)>& progress) { symbolizer_.look_up(progress); }

std::vector<FrameReport> SiteBook::frames(trace::SiteId site) const {
  std::vector<FrameReport> frames;
  for (const trace::StackFrame& frame : reader_.stacks().stack(site).frames) {
    FrameReport plain;
    if (frame.method != trace::kNoMethod) {
      plain.function = reader_.stacks().methods()[frame.method];
      const std::size_t line = plain.function.rfind("):");  // shop.Cart.add(int):12
      if (line != std::string::npos) {
        plain.line = static_cast<unsigned>(std::stoul("0" + plain.function.substr(line + 2)));
        plain.function.resize(line + 1);
      }
      plain.offset = frame.method;
      plain.is_java = true;
      frames.push_back(std::move(plain));
      continue;
    }
    if (frame.image < modules_.size()) plain.module = modules_[frame.image].path;
    plain.offset = frame.address;
    const symbols::Locations& locations = symbolizer_.at(place_of(frame));
    if (locations.empty()) frames.push_back(plain);
    for (const symbols::Location& location : locations) {
      FrameReport& to = frames.emplace_back(plain);
      to.function = location.function;
      to.file = location.file;
      if (location.line) to.line = location.line;
      to.inlined = &location != &locations.back();
    }
  }
  return frames;
}

std::string SiteBook::end_word(trace::SiteId site) const {
  switch (reader_.stacks().stack(site).end) {
    case trace::StackEnd::whole: return "whole";
    case trace::StackEnd::depth: return "depth";
    case trace::StackEnd::no_rule: return "no rule";
    case trace::StackEnd::bad_stack: return "bad stack";
    default: return "unknown";
  }
}

std::string SiteBook::where(trace::SiteId site) const {
  const std::vector<FrameReport> all = frames(site);
  if (all.empty()) return "";
  const FrameReport& frame = all[telling_frame(all)];
  if (frame.is_java) return frame_text(frame);
  return frame.function.empty() ? place_text(frame) : short_function(frame.function) + " (" + place_text(frame) + ")";
}

std::vector<ModuleReport> SiteBook::modules() const {
  std::vector<ModuleReport> modules;
  for (std::uint32_t i = 0; i < modules_.size(); i++)
    if (const auto& state = symbolizer_.state(i))
      modules.push_back({modules_[i].path, symbols::build_id_text(modules_[i].build_id), state_word(state->file),
                         state->debug_info, state->symbols});
  std::sort(modules.begin(), modules.end(), [](const ModuleReport& a, const ModuleReport& b) { return a.path < b.path; });
  return modules;
}

}  // namespace heapspy::report
