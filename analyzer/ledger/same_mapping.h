// A mapping of a live process and one of a trace's snapshot are the same thing in two rooms that do not know each other.
#pragma once

namespace heapspy::ledger {

template <class To, class From>
To same_mapping(const From& from) {
  To to;
  to.start = from.start;
  to.end = from.end;
  to.file_offset = from.file_offset;
  to.inode = from.inode;
  to.read = from.read;
  to.write = from.write;
  to.execute = from.execute;
  to.shared = from.shared;
  to.name = from.name;
  to.rss_bytes = from.rss_bytes;
  to.anonymous_bytes = from.anonymous_bytes;
  to.swap_bytes = from.swap_bytes;
  to.anon_huge_bytes = from.anon_huge_bytes;
  to.private_dirty_bytes = from.private_dirty_bytes;
  return to;
}

}  // namespace heapspy::ledger
