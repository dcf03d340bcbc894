// Field numbers: github.com/google/pprof, proto/profile.proto.
#include <algorithm>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/exports/exports.h"
#include "analyzer/exports/frame_label.h"
#include "analyzer/exports/gzip.h"

namespace heapspy::exports {

namespace {

using protozero::pbf_writer;
using report::FrameReport;

namespace profile {
enum : unsigned {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  duration_nanos = 10,
  period_type = 11,
  period = 12,
  comment = 13,
  default_sample_type = 14,
};
}

// The addresses of a profile are made up of a module's number and an offset in it: what a process had mapped where is over, and
// the functions are said already.
constexpr unsigned kModuleShift = 40;

class Profile {
 public:
  // `program`: viewers take the first mapping for the program itself.
  explicit Profile(const std::string& program) : writer_(data_) {
    string("");
    if (!program.empty()) mapping(program);
  }

  std::uint64_t string(const std::string& text) {
    const auto [at, added] = strings_.try_emplace(text, order_.size());
    if (added) order_.push_back(&at->first);
    return at->second;
  }

  void value_type(unsigned tag, const char* type, const char* unit) {
    pbf_writer message(writer_, tag);
    message.add_int64(1, static_cast<std::int64_t>(string(type)));
    message.add_int64(2, static_cast<std::int64_t>(string(unit)));
  }

  // Frames from `first` on that were inlined into one another, and the one that they were inlined into: one location.
  std::uint64_t location(const FrameReport* first, const FrameReport* end) {
    std::vector<std::uint64_t> lines;
    for (const FrameReport* frame = first; frame != end; ++frame) {
      lines.push_back(function(*frame));
      lines.push_back(frame->line.value_or(0));
    }
    const std::uint64_t module = mapping(first->module);
    const std::uint64_t address = (module << kModuleShift) + first->offset;
    const auto [at, added] = locations_.try_emplace({address, lines}, locations_.size() + 1);
    if (!added) return at->second;
    pbf_writer message(writer_, profile::location);
    message.add_uint64(1, at->second);
    if (module) message.add_uint64(2, module);
    message.add_uint64(3, address);
    for (std::size_t i = 0; i < lines.size(); i += 2) {
      pbf_writer line(message, 4);
      line.add_uint64(1, lines[i]);
      line.add_int64(2, static_cast<std::int64_t>(lines[i + 1]));
    }
    return at->second;
  }

  void sample(const std::vector<std::uint64_t>& locations, const std::vector<std::int64_t>& values, std::uint32_t site) {
    const std::uint64_t label = string("site");
    pbf_writer message(writer_, profile::sample);
    message.add_packed_uint64(1, locations.begin(), locations.end());
    message.add_packed_int64(2, values.begin(), values.end());
    pbf_writer number(message, 3);
    number.add_int64(1, static_cast<std::int64_t>(label));
    number.add_int64(3, site);
  }

  pbf_writer& writer() { return writer_; }

  std::string finish(const report::Report& report) {
    std::map<std::string, std::string> build_ids;
    for (const report::ModuleReport& module : report.modules) build_ids.emplace(module.path, module.build_id);
    std::map<std::uint64_t, std::string> by_id;
    for (const auto& [path, id] : mappings_) by_id.emplace(id, path);
    for (const auto& [id, path] : by_id) {
      const auto build_id = build_ids.find(path);
      const std::uint64_t file = string(path), build = string(build_id == build_ids.end() ? "" : build_id->second);
      pbf_writer message(writer_, profile::mapping);
      message.add_uint64(1, id);
      message.add_uint64(2, id << kModuleShift);
      message.add_uint64(3, (id + 1) << kModuleShift);
      message.add_int64(5, static_cast<std::int64_t>(file));
      message.add_int64(6, static_cast<std::int64_t>(build));
      for (const unsigned has : {7u, 8u, 9u, 10u}) message.add_bool(has, true);  // functions, files, lines, inlined frames
    }
    for (const std::string* text : order_) writer_.add_string(profile::string_table, *text);
    return std::move(data_);
  }

 private:
  std::uint64_t function(const FrameReport& frame) {
    const std::string name = function_label(frame);
    const auto [at, added] = functions_.try_emplace({name, frame.file}, functions_.size() + 1);
    if (!added) return at->second;
    const auto text = static_cast<std::int64_t>(string(name)), file = static_cast<std::int64_t>(string(frame.file));
    pbf_writer message(writer_, profile::function);
    message.add_uint64(1, at->second);
    message.add_int64(2, text);
    message.add_int64(3, text);
    message.add_int64(4, file);
    return at->second;
  }

  std::uint64_t mapping(const std::string& path) {
    return path.empty() ? 0 : mappings_.try_emplace(path, mappings_.size() + 1).first->second;
  }

  std::string data_;
  pbf_writer writer_;
  std::unordered_map<std::string, std::uint64_t> strings_;
  std::vector<const std::string*> order_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> functions_;
  std::map<std::pair<std::uint64_t, std::vector<std::uint64_t>>, std::uint64_t> locations_;
  std::map<std::string, std::uint64_t> mappings_;
};

// A value is given where every site has it.
std::vector<Value> known_values(const report::Report& report) {
  std::vector<Value> known;
  for (const Value value : kValues)
    if (std::all_of(report.sites.begin(), report.sites.end(),
                    [&](const report::SiteReport& site) { return value_of(site, value).has_value(); }))
      known.push_back(value);
  return known;
}

}  // namespace

std::string pprof(const report::Report& report) {
  Profile profile(report.process.exe);
  const std::vector<Value> values = known_values(report);
  for (const Value value : values) profile.value_type(profile::sample_type, name_of(value), unit_of(value));
  for (const report::SiteReport& site : report.sites) {
    std::vector<std::uint64_t> locations;
    const FrameReport* const end = site.frames.data() + site.frames.size();
    for (const FrameReport* frame = site.frames.data(); frame != end;) {
      const FrameReport* next = frame;
      while (next->inlined && next + 1 != end) ++next;
      locations.push_back(profile.location(frame, ++next));
      frame = next;
    }
    std::vector<std::int64_t> numbers;
    for (const Value value : values) numbers.push_back(static_cast<std::int64_t>(value_of(site, value).value_or(0)));
    profile.sample(locations, numbers, site.id);
  }
  profile.value_type(profile::period_type, "space", "bytes");
  profile.writer().add_int64(profile::period,
                             report.trace.sample ? static_cast<std::int64_t>(report.trace.sample->mean_bytes) : 1);
  if (report.process.duration_s)
    profile.writer().add_int64(profile::duration_nanos, static_cast<std::int64_t>(*report.process.duration_s * 1e9));
  std::string command;
  for (const std::string& argument : report.process.command) command += (command.empty() ? "" : " ") + argument;
  const std::uint64_t comment = profile.string("heapspy: " + command);
  profile.writer().add_int64(profile::comment, static_cast<std::int64_t>(comment));
  const std::uint64_t shown_first = profile.string("inuse_space");
  profile.writer().add_int64(profile::default_sample_type, static_cast<std::int64_t>(shown_first));
  return gzip(profile.finish(report));
}

}  // namespace heapspy::exports
