#include "analyzer/trace/snapshot_decode.h"

#include <algorithm>

#include "analyzer/trace/tagged_items.h"

namespace heapspy::trace {

namespace {

using format::SnapshotTag;

void decode_mappings(std::string_view content, std::vector<Mapping>& to) {
  ByteRow row(content);
  while (const auto record = row.next<format::MappingRecord>()) {
    Mapping mapping;
    mapping.start = record->start;
    mapping.end = record->end;
    mapping.file_offset = record->file_offset;
    mapping.inode = record->inode;
    mapping.rss_bytes = record->rss_bytes;
    mapping.anonymous_bytes = record->anonymous_bytes;
    mapping.swap_bytes = record->swap_bytes;
    mapping.anon_huge_bytes = record->anon_huge_bytes;
    mapping.private_dirty_bytes = record->private_dirty_bytes;
    mapping.read = record->permissions & 1;
    mapping.write = record->permissions & 2;
    mapping.execute = record->permissions & 4;
    mapping.shared = record->permissions & 8;
    mapping.name = row.take(record->name_bytes);
    to.push_back(std::move(mapping));
  }
}

void decode_residency(std::string_view content, std::vector<ResidentPages>& to) {
  ByteRow row(content);
  while (const auto record = row.next<format::ResidencyRecord>()) {
    ResidentPages pages;
    pages.start = record->start;
    pages.pages = record->pages;
    pages.kind = record->kind;
    const std::string_view bitmap = row.take(std::uint64_t{record->bitmap_words} * 8);
    if (pages.kind == format::Residency::bitmap) {
      // resident() looks up any page below `pages`: the bitmap must have them all.
      if (bitmap.size() / 8 * 64 < pages.pages) pages.kind = format::Residency::unknown;
      pages.bitmap.resize(bitmap.size() / 8);
      std::memcpy(pages.bitmap.data(), bitmap.data(), pages.bitmap.size() * 8);
    }
    to.push_back(std::move(pages));
  }
}

// File names stand on lines of their own; they have a dot and no space, and no line of such a file looks like that.
void decode_cgroup(std::string_view content, std::map<std::string, std::string>& to) {
  std::string* text = nullptr;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.find(' ') == std::string_view::npos && line.find('.') != std::string_view::npos)
      text = &to[std::string(line)];
    else if (text && !line.empty())
      *text += (text->empty() ? "" : "\n") + std::string(line);
  }
}

}  // namespace

std::optional<format::SnapshotInfo> decode_snapshot_info(std::string_view payload) {
  ByteRow row(payload);
  const auto item = row.next<format::TaggedItem>();
  if (!item || item->tag != static_cast<std::uint32_t>(SnapshotTag::info)) return std::nullopt;
  return ByteRow(row.take(item->bytes)).next<format::SnapshotInfo>();
}

Snapshot decode_snapshot(std::string_view payload, std::uint64_t page_bytes) {
  Snapshot snapshot;
  snapshot.page_bytes = page_bytes;
  for_each_item(payload, [&](std::uint32_t tag, std::string_view content) {
    switch (static_cast<SnapshotTag>(tag)) {
      case SnapshotTag::info:
        if (const auto info = ByteRow(content).next<format::SnapshotInfo>()) {
          snapshot.begin = info->begin_tick;
          snapshot.end = info->end_tick;
          snapshot.reason = info->reason;
          snapshot.rss_bytes = info->rss_bytes;
          snapshot.recorder_bytes = info->recorder_bytes;
          if (info->brk_known) snapshot.brk_end = info->brk_end;
        }
        break;
      case SnapshotTag::mappings: decode_mappings(content, snapshot.mappings); break;
      case SnapshotTag::residency: decode_residency(content, snapshot.resident); break;
      case SnapshotTag::marked: decode_residency(content, snapshot.marked); break;
      case SnapshotTag::heaps: {
        ByteRow row(content);
        while (const auto heap = row.next<format::HeapRecord>()) snapshot.heaps.push_back(*heap);
        break;
      }
      case SnapshotTag::threads: {
        ByteRow row(content);
        while (const auto thread = row.next<format::ThreadRecord>())
          snapshot.thread_names[thread->tid] = std::string(thread->name, strnlen(thread->name, sizeof thread->name));
        break;
      }
      case SnapshotTag::status_text: snapshot.status_text = content; break;
      case SnapshotTag::cgroup_text: decode_cgroup(content, snapshot.cgroup); break;
    }
  });
  auto by_start = [](const auto& left, const auto& right) { return left.start < right.start; };
  std::sort(snapshot.mappings.begin(), snapshot.mappings.end(), by_start);
  std::sort(snapshot.resident.begin(), snapshot.resident.end(), by_start);
  std::sort(snapshot.marked.begin(), snapshot.marked.end(), by_start);
  std::sort(snapshot.heaps.begin(), snapshot.heaps.end(),
            [](const format::HeapRecord& left, const format::HeapRecord& right) { return left.address < right.address; });
  return snapshot;
}

}  // namespace heapspy::trace
