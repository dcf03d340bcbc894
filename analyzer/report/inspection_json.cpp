#include "analyzer/report/inspection_json.h"

#include "analyzer/heap/free_chunks.h"
#include "analyzer/report/inspection_java.h"
#include "analyzer/report/json_values.h"

namespace heapspy::report {
namespace {

Json site_json(const Inspection& inspection, std::uint64_t block) {
  if (!inspection.trace) return nullptr;
  const auto known = inspection.trace->plugs.find(block);
  if (known == inspection.trace->plugs.end()) return nullptr;
  const auto frames = inspection.trace->plug_frames.find(known->second.site);
  return {{"id", known->second.site ? Json(known->second.site) : Json()},
          {"frames", frames == inspection.trace->plug_frames.end() ? Json::array() : list_json(frames->second, frame_json)},
          {"size_bytes", known->second.size},
          {"thread", known->second.thread},
          {"age_s", maybe(known->second.age_s)}};
}

// Blocks that a thread caches are named as such: they pin no less.
Json plug_json(const Inspection& inspection, const std::optional<heap::Plug>& plug) {
  if (!plug) return nullptr;
  return {{"address", plug->address},
          {"bytes", plug->bytes},
          {"site", site_json(inspection, plug->address)},
          {"kind", heap::name(plug->kind)},
          {"free_below_bytes", maybe(plug->free_below_bytes)}};
}

Json arena_json(const Inspection& inspection, const InspectedArena& arena) {
  return {{"id", arena.id},
          {"kind", arena.kind},
          {"address", maybe(arena.address)},
          {"heaps", maybe(arena.heaps)},
          {"threads", arena.threads},
          {"proven", arena.proven},
          {"system_bytes", maybe(arena.system_bytes)},
          {"in_use_bytes", maybe(arena.in_use_bytes)},
          {"live_bytes", nullptr},  // a heap does not say what was asked for
          {"live_blocks", maybe(arena.blocks)},
          {"resident_bytes", maybe(arena.resident_bytes)},
          {"trimmable_bytes", maybe(arena.trimmable_bytes)},
          {"pinned_bytes", maybe(arena.pinned_bytes)},
          {"cached_bytes", maybe(arena.cached_bytes)},
          {"fragmentation", nullptr},
          {"in_use_resident_bytes", maybe(arena.in_use_resident_bytes)},
          {"secondary_top_bytes", maybe(arena.secondary_top_bytes)},
          {"trimmable_at_most_bytes", maybe(arena.trimmable_at_most_bytes)},
          {"top_bytes", maybe(arena.top_bytes)},
          {"tcache_bytes", maybe(arena.tcache_bytes)},
          {"fastbin_bytes", maybe(arena.fastbin_bytes)},
          {"unsorted_bytes", maybe(arena.unsorted_bytes)},
          {"small_bytes", maybe(arena.small_bytes)},
          {"large_bytes", maybe(arena.large_bytes)},
          {"plug", plug_json(inspection, arena.plug)}};
}

Json heaps_json(const Inspection& inspection) {
  Json heaps = Json::array();
  if (!inspection.heap) return heaps;
  const heap::TakenApart& apart = *inspection.heap;
  for (std::size_t r = 0; r < apart.copy.regions.size(); r++) {
    const heap::HeapRegion& region = apart.copy.regions[r];
    const heap::RegionAccount& account = apart.account.regions[r];
    heaps.push_back({{"address", region.start},
                     {"arena", apart.copy.arenas[region.arena].address},
                     {"size_bytes", region.end - region.start},
                     {"resident_bytes", maybe(account.resident_bytes)},
                     {"proven", apart.walk.regions[r].tiled},
                     {"plug", plug_json(inspection, account.plug)}});
  }
  return heaps;
}

Json mapped_json(const Inspection& inspection) {
  Json blocks = Json::array();
  if (!inspection.heap) return blocks;
  for (const heap::MappedBlock& block : inspection.heap->copy.mapped)
    blocks.push_back({{"address", block.chunk + heap::kChunkHeaderBytes},
                      {"mapping_bytes", block.end - block.start},
                      {"resident_bytes", maybe(block.resident_bytes)}});
  return blocks;
}

Json cache_json(const InspectedThread& thread) {
  return {{"tid", thread.tid},
          {"arena", maybe(thread.arena)},
          {"cached_blocks", maybe(thread.cached_blocks)},
          {"cached_bytes", maybe(thread.cached_bytes)}};
}

Json trace_of_json(const Inspection& inspection) {
  if (!inspection.trace) return nullptr;
  return {{"path", inspection.trace->path},
          {"known_blocks", inspection.trace->known_blocks},
          {"unknown_blocks", inspection.trace->unknown_blocks}};
}

Json sites_json(const Inspection& inspection) {
  if (!inspection.trace) return nullptr;
  return list_json(inspection.trace->sites, [](const InspectedSite& site) -> Json {
    return {{"id", site.id},
            {"frames", list_json(site.frames, frame_json)},
            {"live_blocks", site.blocks},
            {"live_bytes", site.live_bytes},
            {"pinned_bytes", site.pinned_bytes},
            {"returned_without_bytes", maybe(site.returned_without_bytes)}};
  });
}

Json pins_json(const heap::PinsOfSize& row) {
  return {{"from", row.from},
          {"to", row.to},
          {"blocks", row.blocks},
          {"bytes", row.bytes},
          {"pinned_bytes", row.pinned_bytes},
          {"returned_without_bytes", row.returned_without_bytes}};
}

Json allocator_json(const Inspection& inspection) {
  Json settings;
  if (inspection.heap && inspection.heap->copy.parameters) {
    const heap::Parameters& p = *inspection.heap->copy.parameters;
    settings = {{"trim_threshold_bytes", p.trim_threshold},
                {"mmap_threshold_bytes", p.mmap_threshold},
                {"top_pad_bytes", p.top_pad},
                {"arena_max", p.arena_max ? Json(p.arena_max) : Json()},
                {"tcache_count", p.cache_bins ? Json(p.cache_depth) : Json()},
                {"tcache_max_bytes", p.cache_bins ? Json(p.cache_largest) : Json()},
                {"huge_page_bytes", p.huge_page_bytes}};
  }
  Json statistics;
  if (const auto& counts = inspection.other_counts)
    statistics = {{"taken_bytes", counts->taken_bytes}, {"thread_caches", maybe(counts->thread_caches)}};
  const std::string& name = inspection.process.allocator_name;
  return {{"name", name == "unknown" ? Json() : Json(name)},
          {"version", maybe(inspection.process.allocator_version)},
          {"glibc_version", maybe(inspection.process.glibc_version)},
          {"settings", std::move(settings)},
          {"statistics", std::move(statistics)}};
}

Json bins_json(const heap::TakenApart& apart) {
  return list_json(heap::bins_of(apart.copy, apart.walk), [](const heap::BinSum& bin) -> Json {
    return {{"arena", bin.arena},          {"kind", heap::name(bin.kind)}, {"bin", bin.bin},
            {"chunks", bin.chunks},        {"bytes", bin.bytes},           {"smallest_bytes", bin.smallest},
            {"largest_bytes", bin.largest}};
  });
}

Json chunks_json(const heap::TakenApart& apart, const InspectionDetail& detail) {
  Json chunks = Json::array();
  for (std::size_t r = 0; r < apart.copy.regions.size(); r++) {
    const heap::HeapRegion& region = apart.copy.regions[r];
    if (detail.heap && (*detail.heap < region.start || *detail.heap >= region.end)) continue;
    const std::uint64_t arena = apart.copy.arenas[region.arena].address;
    for (std::size_t i = apart.walk.regions[r].first_chunk; i < apart.walk.regions[r].end_chunk; i++) {
      const heap::Chunk& chunk = apart.walk.chunks[i];
      chunks.push_back({{"address", chunk.address},
                        {"bytes", static_cast<std::uint64_t>(chunk.bytes)},
                        {"kind", heap::name(chunk.kind)},
                        {"arena", arena}});
    }
  }
  return chunks;
}

}  // namespace

Json inspection_json(const Inspection& inspection, const InspectionDetail& detail) {
  Json parts = Json::array();
  for (const PartReport& part : inspection.rss.parts) parts.push_back({{"name", part.name}, {"bytes", part.bytes}});
  Json checks = Json::array();
  if (inspection.heap)
    for (const heap::Check& check : inspection.heap->checks)
      checks.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
  Json process = process_json(inspection.process);
  if (inspection.core) {
    process["host"] = process["duration_s"] = process["start_time"] = nullptr;
    process["core"] = inspection.path;
  }
  Json root = {
      {"schema", "heapspy.inspect/1"},
      {"process", std::move(process)},
      {"allocator", allocator_json(inspection)},
      {"arenas", list_json(inspection.arenas, [&](const InspectedArena& arena) { return arena_json(inspection, arena); })},
      {"heaps", heaps_json(inspection)},
      {"mapped_blocks", mapped_json(inspection)},
      {"threads", list_json(inspection.threads, cache_json)},
      {"trim_prediction_bytes", maybe(inspection.trim_prediction_bytes)},
      {"trim_at_most_bytes", maybe(inspection.trim_at_most_bytes)},
      {"pinned_by_size", list_json(inspection.pinned_by_size, pins_json)},
      {"trace", trace_of_json(inspection)},
      {"sites", sites_json(inspection)},
      {"rss",
       {{"total_bytes", maybe(inspection.rss.total_bytes)}, {"parts", std::move(parts)}, {"notes", inspection.rss.notes}}},
      {"mappings", list_json(inspection.kinds,
                             [&](const process::KindTotal& kind) -> Json {
                               return {{"kind", process::name(kind.kind)},
                                       {"count", kind.count},
                                       {"size_bytes", kind.size_bytes},
                                       {"rss_bytes", inspection.core ? Json() : Json(kind.rss_bytes)}};
                             })},
      {"jvm", jvm_json(inspection)},
      {"checks", std::move(checks)},
      {"notes", inspection.notes},
      {"pause_s", maybe(inspection.pause_s)},
      {"walk_s", inspection.walk_s},
      {"pause_cpu_s", maybe(inspection.pause_cpu_s)},
      {"walk_cpu_s", inspection.walk_cpu_s},
      {"copied_bytes", inspection.copied_bytes},
      {"attempts", inspection.attempts}};
  if (detail.bins && inspection.heap) root["bins"] = bins_json(*inspection.heap);
  if (detail.chunks && inspection.heap) root["chunks"] = chunks_json(*inspection.heap, detail);
  return root;
}

}  // namespace heapspy::report
