#include "ring_copy.h"

#include "heapspy/format/record.h"

#include "message.h"
#include "process_facts.h"
#include "recorder.h"
#include "snapshot.h"
#include "text.h"

namespace heapspy::ring_copy {

using namespace format;

namespace {

// A trigger that never ends must not fill the disk.
constexpr uint32_t kMostCopies = 16;

constinit TraceFile copy;  // under the recorder's copy_lock

void name_copy(uint32_t number) {
  constexpr char kEnding[] = ".hspy";
  const char* original = recorder->file.path();
  size_t length = length_of(original);
  if (length > sizeof kEnding && same(original + length - (sizeof kEnding - 1), kEnding)) length -= sizeof kEnding - 1;
  Text(copy.path_room(), kMaxPath).add(original, length).add(".").add_number(number).add(kEnding);
}

// What a ring holds of its owner's stream. The owner goes on writing, and may leave the ring to another meanwhile: then what
// was copied is worth nothing, and the words are in a ring that comes later or gone.
void copy_ring(const Slot& slot, uint64_t* words) {
  std::atomic_ref<uint32_t> owner(slot.header->thread);
  const uint32_t thread = owner.load(std::memory_order_acquire);
  const SlotHeader header = *slot.header;
  if (!thread) return;
  const uint64_t room = slot.small ? kSmallRingWords : kRingWords;
  uint64_t count = 0;
  for (; count < room; count++) {
    const uint64_t position = header.appended + count;
    const uint64_t word = std::atomic_ref<uint64_t>(slot.words[position % kRingWords]).load(std::memory_order_relaxed);
    const uint64_t lap = (position / kRingWords & 1) ? 0 : kLapBit;
    if ((word & kLapBit) != lap) break;
    words[count] = word;
    if (slot.small && position + 1 == room) {
      count++;
      break;
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (owner.load(std::memory_order_relaxed) != thread || slot.header->appended != header.appended || !count) return;
  ChunkHeader chunk{};
  chunk.kind = ChunkKind::events;
  chunk.thread = thread;
  chunk.tid = header.tid;
  chunk.stream_at = header.appended - header.stream_delta;
  chunk.first_tick = header.first_tick;
  copy.append(chunk, {words, count * 8});
}

// The cells so far. The rings were copied before: what they name is among these.
void copy_stacks() {
  FileHeader& header = copy.header();
  header.stack_cells = recorder->file.header().stack_cells;
  header.stacks_lost = recorder->file.header().stacks_lost;
  recorder->stacks.for_each_segment([&](const char* segment) {
    const uint64_t bytes = reinterpret_cast<const ChunkHeader*>(segment)->payload_bytes;
    auto* cells = static_cast<char*>(os::map_anonymous(bytes));  // they may be written meanwhile, and the chunk has a checksum
    if (!cells) return;
    __builtin_memcpy(cells, segment + sizeof(ChunkHeader), bytes);
    ChunkHeader chunk{};
    chunk.kind = ChunkKind::stacks;
    copy.append(chunk, {cells, bytes});
    os::unmap(cells, bytes);
  });
}

bool write_copy(Trigger why) {
  FileHeader& live = recorder->file.header();
  name_copy(live.copies + 1);
  if (!copy.create(0)) return false;
  FileHeader& header = copy.header();
  const uint64_t begins_at = header.append_at;
  header = live;
  header.header_bytes = kPageBytes;
  header.append_at = begins_at;
  header.stop = header.stop_errno = 0;
  header.failed_appends = 0;
  header.collector = header.collector_beat = 0;
  header.frozen_by = why;
  header.copies = 0;
  header.control = {};
  note_clocks();
  header.pairs[1] = live.pairs[1];
  process_facts::begin(copy);
  auto* words = static_cast<uint64_t*>(os::map_anonymous(kRingWords * 8));
  if (words) {
    recorder->threads.for_each_slot([&](const Slot& slot) { copy_ring(slot, words); });
    os::unmap(words, kRingWords * 8);
  }
  copy_stacks();
  snapshot::take(SnapshotReason::requested, copy);
  header.end_tick = recorder->clock.now();
  copy.close();
  live.copies++;
  return true;
}

}  // namespace

bool freeze(Trigger why) {
  if (options.mode != Mode::ring || recorder->file.header().copies >= kMostCopies) return false;
  if (!recorder->copy_lock.try_lock()) return false;
  os::SignalsBlocked blocked;
  const bool written = write_copy(why);
  recorder->copy_lock.unlock();
  if (written) message::copy_frozen(copy.path());
  return written;
}

}  // namespace heapspy::ring_copy
