#include "analyzer/report/family_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/report/site_book.h"
#include "analyzer/symbols/perf_map.h"

namespace heapspy::report {
namespace {

template <typename T>
void add(std::optional<T>& to, const std::optional<T>& figure) {
  to = to && figure ? std::optional<T>(*to + *figure) : std::nullopt;
}

// Sums; of the largest moments of several processes the sum is what they held at most together.
void add_site(SiteReport& to, const SiteReport& from) {
  for (const auto figure : {&SiteReport::allocations, &SiteReport::bytes, &SiteReport::reallocations, &SiteReport::most_bytes,
                            &SiteReport::most_blocks, &SiteReport::ended_blocks, &SiteReport::copied_bytes,
                            &SiteReport::moved_bytes, &SiteReport::final_bytes})
    to.*figure += from.*figure;
  for (const auto figure :
       {&SiteReport::live_bytes, &SiteReport::live_blocks, &SiteReport::peak_bytes, &SiteReport::peak_blocks,
        &SiteReport::temporary, &SiteReport::pinned_bytes, &SiteReport::end_live_bytes, &SiteReport::end_live_blocks})
    add(to.*figure, from.*figure);
  const auto lived = [](const SiteReport& site) {
    return site.mean_lifetime_s.value_or(0) * static_cast<double>(site.ended_blocks);
  };
  const double ended_s =
      lived(from) + to.mean_lifetime_s.value_or(0) * static_cast<double>(to.ended_blocks - from.ended_blocks);
  if (to.ended_blocks) to.mean_lifetime_s = ended_s / static_cast<double>(to.ended_blocks);
  to.lifetimes_s += from.lifetimes_s;
  to.largest_bytes = std::max(to.largest_bytes, from.largest_bytes);
  if (to.survivors.size() < from.survivors.size()) to.survivors.resize(from.survivors.size());
  for (std::size_t i = 0; i < from.survivors.size(); i++) to.survivors[i] += from.survivors[i];
}

}  // namespace

std::size_t FamilySites::FrameHash::operator()(const Frame& frame) const {
  return symbols::PlaceHash()(frame.place) ^ std::hash<SharedText>()(frame.text);
}

std::uint32_t FamilySites::module_number(const symbols::Module& module) {
  const auto [known, fresh] =
      module_numbers_.try_emplace(module.build_id + '\n' + module.path, static_cast<std::uint32_t>(modules_.size()));
  if (fresh) modules_.push_back(module);
  return known->second;
}

std::uint32_t FamilySites::frame_number(const Frame& frame) {
  const auto [known, fresh] = frame_numbers_.try_emplace(frame, static_cast<std::uint32_t>(frames_.size()));
  if (fresh) frames_.push_back(frame);
  return known->second;
}

std::uint32_t FamilySites::child(std::vector<Node>& nodes, NodeIds& ids, std::uint32_t parent, std::uint32_t frame) {
  const auto [known, fresh] = ids.try_emplace(std::uint64_t{parent} << 32 | frame, static_cast<std::uint32_t>(nodes.size()));
  if (fresh) nodes.push_back({frame, parent});
  return known->second;
}

void FamilySites::add(const trace::Reader& reader, const model::Figures& figures, const model::Moment* at) {
  std::vector<std::uint32_t> modules;
  for (const symbols::Module& module : SiteBook::modules_of(reader)) modules.push_back(module_number(module));
  std::optional<symbols::PerfMap> map;
  bool map_read = false;
  const auto frame_of = [&](const trace::StackFrame& from) {
    Frame frame;
    if (from.method != trace::kNoMethod) {
      frame.text = reader.stacks().methods()[from.method];
      frame.is_java = true;
    } else if (from.image < modules.size()) {
      frame.place = {modules[from.image], from.address, !from.interrupted};
    } else {
      if (!std::exchange(map_read, true))
        map = symbols::PerfMap::read(perf_map_of(reader, {}), reader.process().start_realtime_ns);
      const std::string* name = map ? map->find(from.address - !from.interrupted) : nullptr;
      frame.text = name ? *name : "(code made at run time)";
    }
    return frame_number(frame);
  };
  processes_++;
  Report one;  // its figures as of one process
  add_site_figures(one.sites, figures, at, figures.at(model::Why::end));
  for (SiteReport& site : one.sites) {
    const trace::Stack stack = reader.stacks().stack(trace::SiteId{site.id});
    std::uint32_t node = 0;
    for (std::size_t i = stack.frames.size(); i-- > 0;) node = child(nodes_, node_ids_, node, frame_of(stack.frames[i]));
    site.threads.clear();  // of this process alone
    site.stack_end = end_word(stack.end);
    const auto [known, fresh] = site_of_.try_emplace(std::uint64_t{node} << 8 | static_cast<std::uint8_t>(stack.end),
                                                     static_cast<std::uint32_t>(sites_.size()));
    if (fresh) {
      sites_.push_back(std::move(site));
      node_of_site_.push_back(node);
      processes_of_site_.emplace_back();
    } else {
      add_site(sites_[known->second], site);
    }
    std::vector<std::uint32_t>& processes = processes_of_site_[known->second];
    if (processes.empty() || processes.back() != processes_) processes.push_back(processes_);
  }
}

void FamilySites::spell_frames(const SiteOptions& options, std::vector<ModuleReport>& modules) {
  symbols::Symbolizer symbolizer(modules_, options.search);
  for (const Frame& frame : frames_)
    if (frame.text.empty()) symbolizer.want(frame.place);
  symbolizer.look_up(options.progress);
  modules = module_reports(modules_, symbolizer);

  std::map<std::tuple<std::string, std::string, std::uint64_t, std::string, std::uint64_t, bool>, std::uint32_t> numbers;
  // Where no line is known: which build of which file, and where in it.
  const auto file_of = [&](std::uint32_t module) {
    if (module >= modules_.size()) return std::string();
    return modules_[module].build_id.empty() ? modules_[module].path : modules_[module].build_id;
  };
  const auto number_of = [&](const FrameReport& frame, std::uint32_t module) {
    const bool has_line = frame.line.has_value();
    const auto [at, fresh] = numbers.try_emplace({frame.function.str(), frame.file.str(), frame.line.value_or(0),
                                                  has_line ? "" : file_of(module), has_line ? 0 : frame.offset, frame.inlined},
                                                 static_cast<std::uint32_t>(spelled_.size()));
    if (fresh) spelled_.push_back(frame);
    return at->second;
  };
  for (const Frame& frame : frames_) {
    std::vector<std::uint32_t>& to = spelling_.emplace_back();
    if (frame.text.empty()) {
      for (const FrameReport& each : frames_at(frame.place, modules_, symbolizer))
        to.push_back(number_of(each, frame.place.module));
      continue;
    }
    FrameReport named;
    if (frame.is_java)
      named = java_frame(frame.text);
    else
      named.function = frame.text;
    to.push_back(number_of(named, symbols::kNoModule));
  }
}

// Those that spell the same as one, in the order in which they were met.
std::vector<SiteReport> FamilySites::spelled_sites() {
  std::vector<Node> nodes = {{}};
  NodeIds ids;
  std::vector<std::uint32_t> spelled(nodes_.size());  // node → node of `nodes`; parents come before their children
  for (std::size_t i = 1; i < nodes_.size(); i++) {
    std::uint32_t at = spelled[nodes_[i].parent];
    const std::vector<std::uint32_t>& frames = spelling_[nodes_[i].frame];
    for (std::size_t k = frames.size(); k-- > 0;) at = child(nodes, ids, at, frames[k]);
    spelled[i] = at;
  }
  std::vector<SiteReport> sites;
  std::vector<std::vector<std::uint32_t>> processes;  // as sites; some twice
  std::map<std::pair<std::uint32_t, std::string>, std::size_t> known;
  for (std::size_t i = 0; i < sites_.size(); i++) {
    const std::uint32_t node = spelled[node_of_site_[i]];
    const auto [at, fresh] = known.try_emplace({node, sites_[i].stack_end}, sites.size());
    if (fresh) {
      SiteReport& site = sites.emplace_back(std::move(sites_[i]));
      site.id = static_cast<std::uint32_t>(sites.size());
      for (std::uint32_t each = node; each; each = nodes[each].parent) site.frames.push_back(spelled_[nodes[each].frame]);
      processes.push_back(std::move(processes_of_site_[i]));
    } else {
      add_site(sites[at->second], sites_[i]);
      std::vector<std::uint32_t>& to = processes[at->second];
      to.insert(to.end(), processes_of_site_[i].begin(), processes_of_site_[i].end());
    }
  }
  for (std::size_t i = 0; i < sites.size(); i++) {
    std::sort(processes[i].begin(), processes[i].end());
    sites[i].processes =
        static_cast<std::uint64_t>(std::unique(processes[i].begin(), processes[i].end()) - processes[i].begin());
  }
  return sites;
}

void FamilySites::spell(Report& to, const SiteOptions& options) {
  spell_frames(options, to.modules);
  take_sites(to, spelled_sites(), options);
}

}  // namespace heapspy::report
