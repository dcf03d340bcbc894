#include "analyzer/report/inspection_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <unordered_map>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "analyzer/report/site_book.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::report {
namespace {

using trace::SiteId;

constexpr std::size_t kSites = 20;    // shown
constexpr std::size_t kForecast = 5;  // of them, for which a trim without their blocks is predicted

std::optional<trace::Tick> tick_of(const RawMoment& moment, const format::FileHeader& header) {
  const bool tsc = header.tick_kind == format::TickKind::tsc4;
  const std::uint64_t raw = tsc ? moment.tsc : moment.monotonic_ns;
  if (raw == 0 || raw < header.origin) return std::nullopt;
  return (raw - header.origin) / (tsc ? 4 : 1);
}

// A chunk that malloc gave for this size. What is asked for by aligned_alloc may take 16 bytes more.
bool fits(const heap::Chunk& chunk, const trace::Block& block) {
  const std::uint64_t least = std::max<std::uint64_t>(heap::kMinChunkBytes, (block.size + 8 + 15) & ~std::uint64_t{15});
  return chunk.bytes >= least && chunk.bytes <= least + 16;
}

class Join {
 public:
  Join(Inspection& inspection, const trace::Reader& reader, const trace::Timeline& timeline, trace::Tick moment)
      : inspection_(inspection), apart_(*inspection.heap), reader_(reader), timeline_(timeline), moment_(moment) {
    result_.path = reader.path();
  }

  void run() {
    site_of_chunk_.assign(apart_.walk.chunks.size(), SiteId::none);
    for (std::size_t i = 0; i < apart_.walk.chunks.size(); i++) {
      const heap::Chunk& chunk = apart_.walk.chunks[i];
      if (chunk.kind != heap::ChunkKind::in_use) continue;
      const auto block = timeline_.live_at(chunk.block());
      if (!block || !fits(chunk, *block)) {
        result_.unknown_blocks++;
        continue;
      }
      result_.known_blocks++;
      if (block->site == SiteId::none) continue;
      site_of_chunk_[i] = block->site;
      InspectedSite& site = sites_[index(block->site)];
      site.blocks++;
      site.live_bytes += block->size;
    }
    heap::for_each_pin(apart_, [&](std::size_t i, std::uint32_t bytes) {
      if (site_of_chunk_[i] != SiteId::none) sites_[index(site_of_chunk_[i])].pinned_bytes += bytes;
    });
    take_largest();
    for (const heap::RegionAccount& region : apart_.account.regions) note_plug(region.plug);
    for (const InspectedArena& arena : inspection_.arenas) note_plug(arena.plug);
    name_frames();
    inspection_.trace = std::move(result_);
  }

 private:
  void take_largest() {
    for (auto& [id, site] : sites_) {
      site.id = id;
      result_.sites.push_back(std::move(site));
    }
    std::sort(result_.sites.begin(), result_.sites.end(), [](const InspectedSite& a, const InspectedSite& b) {
      if (a.pinned_bytes != b.pinned_bytes) return a.pinned_bytes > b.pinned_bytes;
      return a.live_bytes != b.live_bytes ? a.live_bytes > b.live_bytes : a.id < b.id;
    });
    if (result_.sites.size() > kSites) result_.sites.resize(kSites);
    std::vector<bool> gone(site_of_chunk_.size());
    for (std::size_t k = 0; k < std::min(kForecast, result_.sites.size()); k++) {
      if (result_.sites[k].pinned_bytes == 0) break;
      for (std::size_t i = 0; i < gone.size(); i++) gone[i] = index(site_of_chunk_[i]) == result_.sites[k].id;
      result_.sites[k].returned_without_bytes = heap::returned_without(apart_, gone);
    }
  }

  // A block in a thread's cache is free to the program: nobody holds it.
  void note_plug(const std::optional<heap::Plug>& plug) {
    if (!plug || plug->kind != heap::ChunkKind::in_use) return;
    const auto block = timeline_.live_at(plug->address);
    heap::Chunk chunk;
    chunk.bytes = plug->bytes;
    if (!block || !fits(chunk, *block)) return;
    KnownBlock known{index(block->site), index(block->thread), block->size, std::nullopt};
    if (block->known && block->born <= moment_)
      known.age_s = reader_.clock().seconds(moment_) - reader_.clock().seconds(block->born);
    result_.plugs[plug->address] = known;
  }

  void name_frames() {
    SiteBook book(reader_, {});
    const auto want = [&](std::uint32_t id) {
      if (id) book.want(SiteId{id});
    };
    for (const InspectedSite& site : result_.sites) want(site.id);
    for (const auto& [address, plug] : result_.plugs) want(plug.site);
    book.look_up({});
    for (InspectedSite& site : result_.sites) site.frames = book.frames(SiteId{site.id});
    for (const auto& [address, plug] : result_.plugs)
      if (plug.site) result_.plug_frames[plug.site] = book.frames(SiteId{plug.site});
  }

  Inspection& inspection_;
  const heap::TakenApart& apart_;
  const trace::Reader& reader_;
  const trace::Timeline& timeline_;
  const trace::Tick moment_;
  InspectedTrace result_;
  std::vector<SiteId> site_of_chunk_;  // as walk.chunks
  std::unordered_map<std::uint32_t, InspectedSite> sites_;
};

}  // namespace

RawMoment RawMoment::now() {
  RawMoment moment;
#if defined(__x86_64__)
  moment.tsc = __rdtsc();
#endif
  timespec now{};
  if (::clock_gettime(CLOCK_MONOTONIC, &now) == 0)
    moment.monotonic_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  return moment;
}

void join_trace(Inspection& inspection, const std::string& path, const RawMoment& moment) {
  if (!inspection.heap || path.empty()) return;
  try {
    const trace::Reader reader(path);
    const auto tick = tick_of(moment, reader.header());
    if (!tick) throw trace::Unreadable("its clock is not this machine's");
    trace::Timeline timeline(reader, {});
    timeline.run(*tick);
    Join(inspection, reader, timeline, *tick).run();
  } catch (const trace::Unreadable& error) {
    inspection.notes.push_back(fmt::format("its trace was not joined: {}", error.what()));
  }
}

}  // namespace heapspy::report
