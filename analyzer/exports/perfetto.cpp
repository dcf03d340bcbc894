// Field numbers: github.com/google/perfetto, protos/perfetto/trace: trace_packet, track_event/{track_descriptor,
// counter_descriptor,track_event}, profiling/{profile_packet,profile_common}.
#include <cmath>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/exports/exports.h"
#include "analyzer/exports/frame_label.h"

namespace heapspy::exports {

namespace {

using protozero::pbf_writer;

constexpr std::uint32_t kSequence = 1;
constexpr std::uint64_t kProcessTrack = 1;

std::uint64_t nanoseconds(double seconds) { return seconds > 0 ? static_cast<std::uint64_t>(std::llround(seconds * 1e9)) : 0; }

class Trace {
 public:
  // A TracePacket; `fill` adds what it carries.
  template <typename Fill>
  void packet(std::optional<double> at_s, Fill fill) {
    pbf_writer packet(writer_, 1);
    if (at_s) packet.add_uint64(8, nanoseconds(*at_s));
    packet.add_uint32(10, kSequence);
    if (!std::exchange(begun_, true)) packet.add_uint32(13, 1);  // SEQ_INCREMENTAL_STATE_CLEARED
    fill(packet);
  }
  std::string finish() { return std::move(data_); }

 private:
  std::string data_;
  pbf_writer writer_{data_};
  bool begun_ = false;
};

struct Counter {
  const char* name;
  report::Bytes report::PointReport::*value;
};

void add_counters(Trace& trace, const report::Report& report) {
  std::string command;
  for (const std::string& argument : report.process.command) command += (command.empty() ? "" : " ") + argument;
  trace.packet(std::nullopt, [&](pbf_writer& packet) {
    pbf_writer track(packet, 60);
    track.add_uint64(1, kProcessTrack);
    pbf_writer process(track, 3);
    process.add_int32(1, static_cast<std::int32_t>(report.process.pid));
    process.add_string(6, command);
  });
  std::uint64_t id = kProcessTrack;
  for (const auto& [name, value] :
       {Counter{"live bytes", &report::PointReport::live_bytes},
        Counter{"held from the kernel", &report::PointReport::system_bytes}, Counter{"RSS", &report::PointReport::rss_bytes},
        Counter{"pinned bytes", &report::PointReport::pinned_bytes}}) {
    id++;
    trace.packet(std::nullopt, [&, track_name = name](pbf_writer& packet) {
      pbf_writer track(packet, 60);
      track.add_uint64(1, id);
      track.add_string(2, track_name);
      track.add_uint64(5, kProcessTrack);
      pbf_writer counter(track, 8);
      counter.add_enum(3, 3);  // UNIT_SIZE_BYTES
    });
    for (const report::PointReport& point : report.timeline) {
      if (!(point.*value)) continue;
      trace.packet(point.time_s, [&, at = value](pbf_writer& packet) {
        pbf_writer event(packet, 11);
        event.add_enum(9, 4);  // TYPE_COUNTER
        event.add_uint64(11, id);
        event.add_int64(30, static_cast<std::int64_t>(*(point.*at)));
      });
    }
  }
}

// Tables of a ProfilePacket: strings, mappings, frames, call stacks, each with ids from 1.
class ProfileTables {
 public:
  explicit ProfileTables(pbf_writer& packet) : packet_(packet) {}

  std::uint64_t callstack(const report::SiteReport& site) {
    std::vector<std::uint64_t> frames;
    for (auto frame = site.frames.rbegin(); frame != site.frames.rend(); ++frame) frames.push_back(this->frame(*frame));
    if (frames.empty()) frames.push_back(frame({}));
    const std::uint64_t id = ++callstacks_;
    pbf_writer message(packet_, 3);
    message.add_uint64(1, id);
    for (const std::uint64_t frame : frames) message.add_uint64(2, frame);
    return id;
  }

 private:
  std::uint64_t string(const std::string& text) {
    const auto [at, added] = strings_.try_emplace(text, strings_.size() + 1);
    if (!added) return at->second;
    pbf_writer message(packet_, 1);
    message.add_uint64(1, at->second);
    message.add_bytes(2, text);
    return at->second;
  }

  std::uint64_t mapping(const std::string& path) {
    const auto [at, added] = mappings_.try_emplace(path, mappings_.size() + 1);
    if (!added) return at->second;
    const std::uint64_t text = string(path.empty() ? "[code made at run time]" : path);
    pbf_writer message(packet_, 4);
    message.add_uint64(1, at->second);
    message.add_uint64(7, text);
    return at->second;
  }

  std::uint64_t frame(const report::FrameReport& frame) {
    const std::string label =
        frame.function.empty() && frame.module.empty() && !frame.offset ? "[unknown]" : place_label(frame);
    const auto [at, added] = frames_.try_emplace({label, frame.module, frame.offset}, frames_.size() + 1);
    if (!added) return at->second;
    const std::uint64_t text = string(label), module = mapping(frame.module);
    pbf_writer message(packet_, 2);
    message.add_uint64(1, at->second);
    message.add_uint64(2, text);
    message.add_uint64(3, module);
    message.add_uint64(4, frame.offset);
    return at->second;
  }

  pbf_writer& packet_;
  std::map<std::string, std::uint64_t> strings_, mappings_;
  std::map<std::tuple<std::string, std::string, std::uint64_t>, std::uint64_t> frames_;
  std::uint64_t callstacks_ = 0;
};

void add_heap_profile(Trace& trace, const report::Report& report) {
  // At the end: what was allocated and freed until a moment before it is not counted by site.
  const double at_s = report.process.duration_s.value_or(0);
  trace.packet(at_s, [&](pbf_writer& packet) {
    pbf_writer profile(packet, 37);
    ProfileTables tables(profile);
    std::vector<std::uint64_t> callstacks;
    for (const report::SiteReport& site : report.sites) callstacks.push_back(tables.callstack(site));
    pbf_writer process(profile, 5);
    process.add_uint64(1, report.process.pid);
    process.add_bool(3, true);
    process.add_uint64(9, nanoseconds(at_s));
    for (std::size_t i = 0; i < report.sites.size(); i++) {
      const report::SiteReport& site = report.sites[i];
      const std::uint64_t live_bytes = site.end_live_bytes.value_or(0), live_blocks = site.end_live_blocks.value_or(0);
      pbf_writer sample(process, 2);
      sample.add_uint64(1, callstacks[i]);
      sample.add_uint64(2, site.bytes);
      sample.add_uint64(3, site.bytes > live_bytes ? site.bytes - live_bytes : 0);
      sample.add_uint64(4, nanoseconds(at_s));
      sample.add_uint64(5, site.allocations);
      sample.add_uint64(6, site.allocations > live_blocks ? site.allocations - live_blocks : 0);
    }
  });
}

}  // namespace

std::string perfetto(const report::Report& report) {
  Trace trace;
  add_counters(trace, report);
  add_heap_profile(trace, report);
  return trace.finish();
}

}  // namespace heapspy::exports
