// Which mappings of a process are HotSpot's: the Java heap, metaspace and code, and what its collectors keep about the heap.
// By evidence of their own; what has none stays unclaimed.
#pragma once
#include <span>
#include <vector>

#include "analyzer/process/mapping_kinds.h"
#include "analyzer/process/mappings.h"

namespace heapspy::ledger {

// archive: of classes; code: the code cache; metaspace: and compressed class space
enum class JavaRegion : std::uint8_t { none, heap, archive, code, metaspace, collector };

struct JavaRegions {
  bool jvm = false;  // libjvm.so is mapped
  bool heap_found = false;
  std::vector<JavaRegion> regions;  // one per mapping
};

// `mappings` by address with their kinds.
//   heap   ZGC's memfd "java_heap"; or private memory below 32 GiB, where HotSpot puts a heap with compressed pointers
//          (CompressedOops: heap end at most 32 GiB) and neither brk nor mmap put anything else on x86-64; failing both, a
//          reservation of 32 GiB or more that is nothing else
//          a class archive's objects, mapped into it
//   archive    class archives (.jsa), but for those objects
//   code       executable anonymous memory (the code cache)
//   metaspace  the anonymous memory that adjoins an archive's classes without a gap (compressed class space of the default
//          1 GiB, metaspace); reservations of metaspace elsewhere: 64 MiB, aligned to 4 MiB, that are no arena of glibc
//          (memory/metaspace: VirtualSpaceNode and root chunks)
JavaRegions java_regions(std::span<const process::Mapping> mappings, std::span<const process::MappingKind> kinds);

}  // namespace heapspy::ledger
