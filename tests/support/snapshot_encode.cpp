// The payload of a snapshot chunk, from what a reader would make of it.
#include "tests/support/payload_bytes.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {

std::string encode_snapshot(const trace::Snapshot& snapshot) {
  std::string payload;
  const format::SnapshotInfo info{
      snapshot.begin,     snapshot.end,           snapshot.reason, snapshot.brk_end ? 1u : 0u, snapshot.brk_end.value_or(0),
      snapshot.rss_bytes, snapshot.recorder_bytes};
  append_item(payload, format::SnapshotTag::info, as_bytes(info));

  std::string content;
  for (const trace::Mapping& mapping : snapshot.mappings) {
    const std::uint32_t permissions =
        (mapping.read ? 1u : 0u) | (mapping.write ? 2u : 0u) | (mapping.execute ? 4u : 0u) | (mapping.shared ? 8u : 0u);
    content += as_bytes(format::MappingRecord{mapping.start, mapping.end, mapping.file_offset, mapping.inode, mapping.rss_bytes,
                                              mapping.anonymous_bytes, mapping.swap_bytes, mapping.anon_huge_bytes,
                                              mapping.private_dirty_bytes, permissions,
                                              static_cast<std::uint32_t>(mapping.name.size())});
    content += mapping.name;
    pad(content, 8);
  }
  append_item(payload, format::SnapshotTag::mappings, content);

  content.clear();
  for (const trace::ResidentPages& pages : snapshot.resident) {
    content += as_bytes(
        format::ResidencyRecord{pages.start, pages.pages, pages.kind, static_cast<std::uint32_t>(pages.bitmap.size())});
    content += view(pages.bitmap);
  }
  append_item(payload, format::SnapshotTag::residency, content);

  content.clear();
  for (const format::HeapRecord& heap : snapshot.heaps) content += as_bytes(heap);
  append_item(payload, format::SnapshotTag::heaps, content);

  content.clear();
  for (const auto& [tid, name] : snapshot.thread_names) {
    format::ThreadRecord thread{tid, 0, {}};
    name.copy(thread.name, sizeof thread.name);
    content += as_bytes(thread);
  }
  append_item(payload, format::SnapshotTag::threads, content);

  append_item(payload, format::SnapshotTag::status_text, snapshot.status_text);
  for (const auto& [file, text] : snapshot.cgroup)
    append_item(payload, format::SnapshotTag::cgroup_text, file + "\n" + text + "\n");
  return payload;
}

}  // namespace heapspy::test
