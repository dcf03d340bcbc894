#include "snapshot.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "cgroup.h"
#include "control.h"
#include "mapping_scan.h"
#include "next_allocator.h"
#include "os.h"
#include "process_facts.h"
#include "recorder.h"
#include "tagged_payload.h"
#include "text.h"
#include "touch.h"
#include "unwind/capture.h"

namespace heapspy::snapshot {

using namespace format;

namespace {

constexpr size_t kRoom = 192u << 20;            // of address space; only what is written costs memory
constexpr uint64_t kHeapBytes = 64ull << 20;    // HEAP_MAX_SIZE, glibc malloc/arena.c: 2 * DEFAULT_MMAP_THRESHOLD_MAX
constexpr uint64_t kLargestScan = 64ull << 30;  // pagemap of a larger, sparse mapping is not read (0.1 s for 64 GiB)
constexpr uint64_t kLeastPeak = 16ull << 20;

// What take() needs besides its payload. Not on the stack: hooks run on whatever stack the program is on, and some are 8 KiB.
// Used under the snapshot lock.
struct Scratch {
  char payload[32 << 10];  // enough for a small process
  char path[kMaxPath];
};
Scratch scratch;

// What mappings are worth a look at their pages: those that malloc could have made.
bool can_hold_blocks(const MappingRecord& mapping) {
  return (mapping.permissions & 3) == 3 && !(mapping.permissions & 8) && mapping.inode == 0;
}

void add_residency(TaggedPayload& payload, Pagemap& pagemap, const MappingRecord& mapping) {
  ResidencyRecord record = {mapping.start, (mapping.end - mapping.start) / 4096, Residency::unknown, 0};
  const uint64_t bytes = mapping.end - mapping.start;
  if (mapping.rss_bytes == 0) {
    record.kind = Residency::none;
  } else if (mapping.rss_bytes == bytes) {
    record.kind = Residency::all;
  } else if (bytes <= kLargestScan && pagemap.ok()) {
    record.kind = Residency::bitmap;
    record.bitmap_words = static_cast<uint32_t>((record.pages + 63) / 64);
  }
  if (!payload.append(&record, sizeof record) || record.kind != Residency::bitmap) return;
  auto* bitmap = reinterpret_cast<uint64_t*>(payload.extend(record.bitmap_words * 8));
  if (!bitmap) return;
  const uint64_t first = mapping.start / 4096;
  pagemap.for_each_run(first, mapping.end / 4096, [&](const Pagemap::Run& run) {
    if (!run.present) return;
    for (uint64_t page = run.first - first; page < run.end - first; page++) bitmap[page / 64] |= 1ull << (page % 64);
  });
}

uint64_t resident_bytes(Pagemap& pagemap, const void* from, size_t bytes) {
  const auto first = reinterpret_cast<uint64_t>(from) / 4096;
  uint64_t pages = 0;
  pagemap.for_each_run(first, first + align_up(bytes, 4096) / 4096,
                       [&](const Pagemap::Run& run) { pages += run.present ? run.end - run.first : 0; });
  return pages * 4096;
}

// Memory of this process that another thread may be unmapping: never by a plain load.
bool read_own_memory(uint64_t at, void* to, size_t bytes) {
  return os::read_memory(static_cast<int>(os::pid()), at, to, bytes) == static_cast<long>(bytes);
}

// glibc malloc/malloc.c, struct malloc_state, by version: where top and system_mem lie from its start.
struct ArenaLayout {
  unsigned top, system_mem;
};
ArenaLayout arena_layout() {
  const unsigned minor = glibc_minor_version();
  if (minor >= 43) return {8, 2096};
  if (minor >= 27) return {96, 2184};
  return {88, 2176};
}

// heap_info (malloc/arena.c) stands at every 64 MiB boundary where a heap is: ar_ptr, prev, size. One that is none fails the
// test.
void add_heaps_in(TaggedPayload& payload, const MappingRecord& mapping, ArenaLayout layout) {
  for (uint64_t at = align_up(mapping.start, kHeapBytes); at < mapping.end; at += kHeapBytes) {
    uint64_t info[3];
    if (!read_own_memory(at, info, sizeof info)) continue;
    HeapRecord record = {at, info[0], info[1], info[2], 0, 0};
    const bool plausible = record.size >= 4096 && record.size <= kHeapBytes && record.size % 4096 == 0 &&
                           record.previous % kHeapBytes == 0 &&
                           (record.arena % kHeapBytes == 0x20 || record.arena % kHeapBytes == 0x30);
    if (!plausible) continue;
    if (record.arena - at < 0x40) {
      read_own_memory(record.arena + layout.top, &record.top, sizeof record.top);
      read_own_memory(record.arena + layout.system_mem, &record.system_bytes, sizeof record.system_bytes);
    }
    payload.append(&record, sizeof record);
  }
}

// Of the threads that are recorded and have not said by themselves what they are called in the end. The folder
// /proc/self/task is not listed: an entry for each thread would be made, and whoever waits for this process has to spin
// until the last of its threads has taken its own away, which took milliseconds where CPUs are busy.
void add_thread_names(TaggedPayload& payload) {
  const auto own_tid = static_cast<uint32_t>(os::tid());
  recorder->threads.for_each_living([&](uint32_t tid) {
    ThreadRecord record{};
    record.tid = tid;
    if (tid == own_tid) {
      os::thread_name(record.name);
    } else {
      char path[64];
      Text(path, sizeof path).add("/proc/self/task/").add_number(tid).add("/comm");
      char comm[32];
      size_t n = os::read_file(path, comm, sizeof comm);
      if (!n) return;
      if (comm[n - 1] == '\n') n--;
      for (size_t i = 0; i < n && i < 15; i++) record.name[i] = comm[i];
    }
    payload.append(&record, sizeof record);
  });
}

void append_file_text(TaggedPayload& payload, const os::File& file) {
  if (char* room = payload.extend(4096)) {
    const long got = os::read(file.fd(), room, 4096);
    payload.shrink(4096 - static_cast<size_t>(got > 0 ? got : 0));
  }
  payload.append("\n", 1);
}

void add_cgroup(TaggedPayload& payload) {
  const cgroup::Files files = cgroup::files();
  for (const char* name : files.names) {
    if (!name) return;
    if (!cgroup::path(files, name, scratch.path, sizeof scratch.path)) return;
    os::File file(os::open(scratch.path, O_RDONLY));
    if (!file.ok()) {
      if (name == files.names[0]) return;  // no limit of its own here: the root, or not visible from this namespace
      continue;
    }
    payload.append(name, length_of(name));
    payload.append("\n", 1);
    append_file_text(payload, file);
  }
}

// Of groups above the process's own by names like "../cpu.max".
void add_cpu_limits(TaggedPayload& payload) {
  for (unsigned above = 0; cgroup::cpu_folder(above, scratch.path, sizeof scratch.path); above++) {
    const size_t folder_bytes = length_of(scratch.path);
    for (const char* name : cgroup::kCpuFiles) {
      Text(scratch.path + folder_bytes, sizeof scratch.path - folder_bytes).add("/").add(name);
      os::File file(os::open(scratch.path, O_RDONLY));
      if (!file.ok()) continue;
      for (unsigned i = 0; i < above; i++) payload.append("../", 3);
      payload.append(name, length_of(name));
      payload.append("\n", 1);
      append_file_text(payload, file);
    }
  }
}

void order(SnapshotReason reason) {
  if (recorder->helper_runs.load(std::memory_order_acquire))
    control::have_helper_do(control::snapshot_bit(reason));
  else
    take(reason);
}

}  // namespace

namespace {

// Mappings, residency and heaps first and together: they must fit each other. False: /proc shows nothing.
bool write_picture(SnapshotReason reason, TaggedPayload& payload) {
  Recorder& r = *recorder;
  SnapshotInfo info{};
  info.begin_tick = r.clock.now();
  info.reason = reason;
  info.brk_known = 1;
  info.brk_end = os::brk_end();
  payload.add(static_cast<uint32_t>(SnapshotTag::info), &info, sizeof info);
  const auto stored_info = [&] { return reinterpret_cast<SnapshotInfo*>(payload.data() + sizeof(TaggedItem)); };  // it moves

  Pagemap pagemap;
  payload.begin(static_cast<uint32_t>(SnapshotTag::mappings));
  const uint64_t from = payload.bytes();
  stored_info()->rss_bytes = mapping_scan::append_mappings(pagemap, payload);
  const uint64_t to = payload.bytes();
  if (to == from) return false;
  payload.end();
  payload.begin(static_cast<uint32_t>(SnapshotTag::residency));
  mapping_scan::for_each(payload, from, to, [&](const MappingRecord& mapping) {
    if (can_hold_blocks(mapping)) add_residency(payload, pagemap, mapping);
  });
  payload.end();
  if (options.touch) {
    payload.begin(static_cast<uint32_t>(SnapshotTag::marked));
    mapping_scan::for_each(payload, from, to, [&](const MappingRecord& mapping) {
      if (can_hold_blocks(mapping) && mapping.rss_bytes && mapping.end - mapping.start <= kLargestScan && pagemap.ok())
        touch::append_marked(payload, pagemap, mapping.start, mapping.end);
    });
    payload.end();
  }
  if (allocator_is_glibc()) {
    payload.begin(static_cast<uint32_t>(SnapshotTag::heaps));
    const ArenaLayout layout = arena_layout();
    mapping_scan::for_each(payload, from, to, [&](const MappingRecord& mapping) {
      if (can_hold_blocks(mapping)) add_heaps_in(payload, mapping, layout);
    });
    payload.end();
  }
  stored_info()->end_tick = r.clock.now();
  stored_info()->recorder_bytes = r.threads.private_bytes() + r.stacks.private_bytes() + r.modules.private_bytes() +
                                  r.rules.private_bytes() + unwind::private_bytes() + payload.own_bytes() +
                                  resident_bytes(pagemap, recorder, sizeof(Recorder));

  payload.begin(static_cast<uint32_t>(SnapshotTag::threads));
  add_thread_names(payload);
  payload.end();
  // The page tables, high-water mark and cgroup of a process that has always been small say nothing about it, and these files
  // cost as much as all the rest.
  if (stored_info()->rss_bytes < kLeastPeak && r.highest_rss_bytes.load(std::memory_order_relaxed) < kLeastPeak) return true;
  payload.begin(static_cast<uint32_t>(SnapshotTag::status_text));
  payload.append_file("/proc/self/status", 4096, 8192);
  payload.end();
  payload.begin(static_cast<uint32_t>(SnapshotTag::cgroup_text));
  add_cgroup(payload);
  add_cpu_limits(payload);
  payload.end();
  return true;
}

}  // namespace

bool take(SnapshotReason reason) { return take(reason, recorder->file); }

bool take(SnapshotReason reason, TraceFile& file) {
  Recorder& r = *recorder;
  // The last picture, or one that somebody asked for, is worth a wait for another that is being taken; a second one of the same
  // moment is not.
  constexpr int kPatienceMs = 2000;
  const bool worth_a_wait = reason == SnapshotReason::exit || reason == SnapshotReason::requested;
  if (worth_a_wait ? !r.snapshot_lock.lock_within(kPatienceMs) : !r.snapshot_lock.try_lock()) return false;
  bool taken;
  {
    os::SignalsBlocked blocked;
    OwnTime timed;
    const uint64_t begin = r.clock.now();
    TaggedPayload payload(scratch.payload, sizeof scratch.payload, kRoom);
    ChunkHeader chunk{};
    chunk.kind = ChunkKind::snapshot;
    chunk.first_tick = begin;
    taken = write_picture(reason, payload) && file.append(chunk, {payload.data(), payload.bytes()});
    const uint64_t end = r.clock.now();
    r.last_snapshot_end.store(end, std::memory_order_relaxed);
    r.last_snapshot_took.store(end - begin, std::memory_order_relaxed);
  }
  r.snapshot_lock.unlock();
  return taken;
}

static uint64_t timed_rss_bytes() {
  OwnTime timed;
  return process_facts::rss_bytes();
}

// A large process's picture takes tens of milliseconds. Whatever was asked for, looking for a peak costs at most a quarter of
// the time, and the interval a tenth.
void take_if_due() {
  Recorder& r = *recorder;
  const uint64_t now_tick = r.clock.now();
  const uint64_t last_end = r.last_snapshot_end.load(std::memory_order_relaxed);
  const uint64_t last_took = r.last_snapshot_took.load(std::memory_order_relaxed);
  if (options.snapshot_at_peak && now_tick >= last_end + 3 * last_took) {
    const uint64_t rss = timed_rss_bytes();
    uint64_t highest = r.highest_rss_bytes.load(std::memory_order_relaxed);
    if (rss >= kLeastPeak && rss >= highest + highest / 20 && r.highest_rss_bytes.compare_exchange_strong(highest, rss))
      order(SnapshotReason::peak);
  }
  if (options.snapshot_every_ns && now_tick >= last_end + 9 * last_took) {
    const uint64_t now = os::clock_ns(CLOCK_MONOTONIC);
    uint64_t due = r.next_interval_ns.load(std::memory_order_relaxed);
    if (now >= due && r.next_interval_ns.compare_exchange_strong(due, now + options.snapshot_every_ns) && due)
      order(SnapshotReason::interval);
  }
}

}  // namespace heapspy::snapshot
