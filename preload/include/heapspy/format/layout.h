// The bytes of a trace that are not events: file header, chunk headers, staging segments, snapshots.
// FORMAT.md draws them; tests/format/format_md_test.cpp holds its examples against this file.
//
// Shared by the recorder (writes) and the analyzer (reads). All numbers are little-endian; all structs are
// fixed-width and padded by name. Offsets are from the start of the file unless said otherwise.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace heapspy::format {

inline constexpr char kMagic[8] = {'h', 'e', 'a', 'p', 's', 'p', 'y', '\n'};
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kPageBytes = 4096;     // unit of the header and of staging segments, not the machine's
inline constexpr std::uint32_t kChunkAlignment = 64;  // every chunk starts at a multiple of this

enum class Mode : std::uint32_t { full = 1, ring = 2, sample = 3, count = 4 };
enum class Clock : std::uint32_t { stamp = 1, event = 2 };

// What one tick is. `tsc4`: four cycles of the invariant TSC (2^57 cycles fit a stamp). `nanosecond`: CLOCK_MONOTONIC.
enum class TickKind : std::uint32_t { tsc4 = 1, nanosecond = 2 };

enum class End : std::uint32_t {
  running = 0,  // still so in the file of a process that was killed: the reader looks whether the process lives
  exit = 1,     // exit(), return from main, _exit()
  exec = 2,     // replaced itself by another program
};

// Why appending to the file failed first. The events that could not be appended are counted in SlotHeader::lost_events.
enum class Stop : std::uint32_t {
  none = 0,
  no_space = 1,       // ENOSPC, EDQUOT
  file_limit = 2,     // RLIMIT_FSIZE or EFBIG
  unreachable = 3,    // the path leads nowhere any more, or to another file (chroot, deleted, permissions)
  no_descriptor = 4,  // EMFILE, ENFILE
  io_error = 5,       // anything else
  max_size = 6,       // HEAPSPY_MAX
  sandbox = 7,        // the program entered seccomp: the recorder makes no system call any more
};

// Two clocks read together. Times of the trace are ticks; seconds come from a line through two of these.
struct ClockPair {
  std::uint64_t tick;          // since FileHeader::origin
  std::uint64_t monotonic_ns;  // CLOCK_MONOTONIC
};
static_assert(sizeof(ClockPair) == 16);

enum class Request : std::uint32_t { none = 0, trim = 1, snapshot = 2, mark = 3 };
enum class RequestResult : std::uint32_t { pending = 0, done = 1, refused = 2 };

// How `heapspy trim` and its like reach into a running process: the words live in the first page of the trace, which
// the recorder keeps mapped. The asker (one at a time, it holds a lock on the file) fills `request` and `text`, raises
// `asked` and wakes it as a futex; the recorder acts, fills the answer, sets `answered` to the value of `asked` that it
// served and wakes that.
struct Control {
  std::uint32_t asked;     // number of requests made; futex word
  std::uint32_t answered;  // number of requests served; futex word
  Request request;
  RequestResult result;
  std::uint64_t begin_tick;  // when the recorder began and ended to act
  std::uint64_t end_tick;
  std::uint64_t value;      // trim: what malloc_trim returned
  std::uint32_t listeners;  // 1 while a helper thread waits on `asked`; 0: served by the next event of some thread
  std::uint32_t reserved;
  char text[80];  // mark: its text, NUL-terminated
};
static_assert(sizeof(Control) == 128);

// What froze a copy of the rings (HEAPSPY_TRIGGER).
enum class Trigger : std::uint32_t {
  none = 0,
  rss = 1,
  cgroup = 2,
  signal = 3,
  fail = 4,       // an allocation returned null
  requested = 5,  // `heapspy snapshot`, heapspy_snapshot()
};

// How call stacks were taken (HEAPSPY_STACKS; never `auto`: what it picked).
enum class Stacks : std::uint32_t { none = 0, frame_pointers = 1, dwarf = 2, libunwind = 3 };

// The first page of the file. The recorder keeps it mapped and writes it in place.
struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t
      header_bytes;  // where the first chunk starts: sizeof(FileHeader), or kPageBytes; the second starts at kPageBytes
  Mode mode;
  Clock clock;
  TickKind tick_kind;
  std::uint32_t machine_page_bytes;
  std::uint32_t pid;
  std::uint32_t ppid;
  std::uint32_t forked;             // 1: begun by a fork without exec, so blocks of the parent live on in it
  std::uint32_t end;                // End
  std::uint64_t origin;             // raw clock value that is tick 0: the TSC, or CLOCK_MONOTONIC in ns
  std::uint64_t start_realtime_ns;  // CLOCK_REALTIME at tick 0
  std::uint64_t start_jiffies;      // field 22 of /proc/PID/stat: with pid, names the process; 0 unknown
  std::uint64_t end_tick;           // when `end` was set
  ClockPair pairs[2];               // pairs[0] from the start; pairs[1] the latest that was finished, or zero
  // The end of the file as reserved so far. Chunks are reserved by adding here, then written: bytes below it may
  // still be zero where the process was killed between the two.
  std::uint64_t append_at;
  std::uint32_t stop;  // Stop: first failure to append
  std::uint32_t stop_errno;
  std::uint64_t failed_appends;
  std::uint64_t max_bytes;                 // HEAPSPY_MAX
  std::uint32_t threads;                   // ids given out so far; the next thread gets threads + 1
  std::uint32_t events_per_stamp;          // K of the stamp rule in force (32; 8 without rseq; 1 with clock=event)
  std::uint64_t parent_start_realtime_ns;  // forked: start_realtime_ns of the parent's trace, else 0
  std::uint64_t unregistered_lost;         // events of threads that could not get a staging ring, counted, not stored
  std::uint64_t sample_bytes;              // mode sample: HEAPSPY_SAMPLE, the mean of bytes between samples
  std::uint64_t ring_bytes;                // mode ring: HEAPSPY_RING, what its rings take at most
  std::uint32_t collector;                 // pid of the `heapspy record` that empties the rings; 0 none
  std::uint32_t collector_beat;            // it moves while the collector is at work; stands still when it is late or dead
  Trigger frozen_by;                       // a copy that a trigger froze from the rings of a process that went on
  std::uint32_t copies;                    // copies frozen so far, in mode ring
  std::uint64_t sampling_lost;             // mode sample: blocks not sampled because the set of sampled ones was full
  Stacks stacks;
  std::uint32_t stack_depth;  // HEAPSPY_DEPTH: frames kept at least; a deeper stack is cut up to 32 frames further out
  std::uint64_t stack_cells;  // claimed so far in the stack table
  std::uint64_t stacks_lost;  // stacks not kept because the table was full or could not grow
  std::uint64_t
      recorder_ticks;  // that the recorder took for what it times: beginning, appends, new threads, snapshots, RSS; 0 unknown
  std::uint8_t reserved[16];
  Control control;
};
static_assert(offsetof(FileHeader, control) == 256);
static_assert(sizeof(FileHeader) == 384 && sizeof(FileHeader) <= kPageBytes);
static_assert(std::is_trivially_copyable_v<FileHeader>);

enum class ChunkKind : std::uint16_t {
  process = 1,           // tagged strings about the process; one, the first chunk
  staging = 2,           // a segment of staging rings; never sealed (checksum 0), page-aligned
  events = 3,            // words of one thread's stream
  snapshot = 4,          // where memory is at one moment
  counters = 5,          // a segment of ThreadCounters; never sealed (checksum 0), page-aligned
  packed = 6,            // words of one thread's stream, compressed
  mark = 7,              // `heapspy mark`: its text, filled up with zeros; first_tick is when
  stacks = 8,            // a segment of StackCells; never sealed (checksum 0), page-aligned
  packed_stacks = 9,     // StackCells, compressed
  packed_counters = 10,  // ThreadCounters, compressed
};

inline constexpr std::uint32_t kChunkMagic = 0x43505348;  // "HSPC"

// Starts every chunk. After a damaged one, the reader looks for the next multiple of kChunkAlignment that holds
// kChunkMagic and a right header_checksum.
struct ChunkHeader {
  std::uint32_t magic;
  ChunkKind kind;
  std::uint16_t version;           // of this kind's payload: 1
  std::uint64_t payload_bytes;     // after this header; the next chunk starts at the next multiple of kChunkAlignment
  std::uint32_t thread;            // events: id of the thread, from 1; else 0
  std::uint32_t tid;               // events: the kernel's id
  std::uint64_t stream_at;         // events: position of the first word in the thread's stream, in words
  std::uint64_t first_tick;        // events: a tick not later than any event in it; snapshot: when it began
  std::uint64_t payload_checksum;  // checksum() of the payload; 0 for staging
  // events: what the thread itself counted: of the words of its stream before place stream_at + payload words + (this >> 48),
  // (this & 2^48 - 1) began a record. 0: not said.
  std::uint64_t records;
  std::uint64_t header_checksum;  // checksum() of the 56 bytes before it
};
static_assert(sizeof(ChunkHeader) == 64);

// ---- staging ---------------------------------------------------------------------------------------------------
// A staging segment is one page of headers (ChunkHeader, StagingHeader, then up to kMaxSlots SlotHeaders) followed by
// `slots` rings of `ring_bytes` each. A thread writes its words into its ring through a shared mapping, so they are in
// the file the moment they are written, whatever kills the process; full halves are copied into `events` chunks.
//
// A collector (`heapspy record`) may write a ring's words into `packed` chunks from outside and then move `appended` on, by
// compare-and-swap, as the thread does itself. It does so only where rings have kCollectedRingBytes or more: there positions
// never go back, whoever owns the slot, so a stale compare cannot succeed.
inline constexpr std::uint32_t kCollectedRingBytes = 1 << 16;
struct StagingHeader {
  std::uint32_t slots;
  std::uint32_t ring_bytes;  // a power of two
  // Mode full, the first segment: so many ThreadCounters stand in its first page, so far from the chunk's start.
  std::uint32_t counters;
  std::uint32_t counters_at;
  std::uint64_t reserved[6];
};
static_assert(sizeof(StagingHeader) == 64);

// The word at position p of a slot stands at ring index p mod (ring words). Its lap bit (record.h) says in which lap
// it was written, so the end of what is valid is where the lap bit is the other one.
struct SlotHeader {
  std::uint32_t thread;  // owner, 0 none; written last when a thread takes the slot
  std::uint32_t tid;
  std::uint64_t appended;      // position below which every word is in `events` chunks (or counted as lost)
  std::uint64_t stream_delta;  // position minus place in the owner's stream, in words (modulo 2^64)
  std::uint64_t lost_events;   // of the owner: could not be appended, or came while its recorder was busy
  std::uint64_t first_tick;    // a tick not later than any event at or after `appended`
  std::uint64_t counted_at;    // a position; of the owner's words before it …
  std::uint64_t records;       // … so many began a record (written after counted_at)
  // mode ring: 0, or the sequence number of a ring that its owner has filled and left; the lowest is the next to be reused.
  std::uint64_t filled;
};
static_assert(sizeof(SlotHeader) == 64);
inline constexpr std::uint32_t kMaxSlots = (kPageBytes - sizeof(ChunkHeader) - sizeof(StagingHeader)) / sizeof(SlotHeader);
static_assert(kMaxSlots == 62);

// ---- packed words ------------------------------------------------------------------------------------------------
// Payload of a `packed` chunk: PackedHeader, then the columns one after another, then zeros up to a multiple of 8. Words
// become columns as analyzer/trace/packed_columns.h and FORMAT.md say. The chunk's thread, tid, stream_at, first_tick and
// records are those of an `events` chunk of the same words.
enum class Column : std::uint32_t {
  operations = 0,  // a byte for each record
  size_low = 1,    // bits 0 to 7 of the sizes of short allocations
  size_high = 2,   // bits 8 to 15
  recent = 3,      // which of the 256 latest allocations is released
  allocated = 4,   // 6 columns: byte 0, 1, … of the differences between addresses of allocations
  released = 10,   // 6 columns: of releases
  ticks = 16,      // variable-length numbers: differences between stamps
  others = 17,     // variable-length numbers: words of longer records
  sightings = 18,  // variable-length numbers: what the collector saw of the stream from outside
  stacks = 19,     // a byte for each record of kind stack
};
inline constexpr std::uint32_t kColumns = 20;
inline constexpr std::uint32_t kColumnsWithoutStacks = 19;  // of chunks written before there were stacks
inline constexpr std::uint32_t kMostPackedWords = 1 << 16;  // in one chunk
inline constexpr std::uint32_t kColumnAsItIs = 1u << 31;    // in column_bytes: not compressed

struct PackedHeader {
  std::uint32_t words;
  std::uint32_t sightings;
  std::uint32_t column_bytes[kColumns];  // a zstd frame, or (with kColumnAsItIs) the column itself; 0: it is empty
  std::uint32_t holes;                   // words that were claimed and never written
  std::uint32_t reserved;
  std::uint64_t checksum;  // checksum() of the 96 bytes before it
};
static_assert(sizeof(PackedHeader) == 104);

// What older chunks have instead. Its checksum tells which of the two it is.
struct PackedHeaderWithoutStacks {
  std::uint32_t words;
  std::uint32_t sightings;
  std::uint32_t column_bytes[kColumnsWithoutStacks];
  std::uint32_t holes;
  std::uint64_t checksum;  // checksum() of the 88 bytes before it
};
static_assert(sizeof(PackedHeaderWithoutStacks) == 96);

// ---- counters ----------------------------------------------------------------------------------------------------
// Modes `count` and `full`: chunk header (64), CountersHeader (64), then `slots` ThreadCounters. A segment's slots are reused:
// when none is free, the threads that ended longest ago are summed up in the slot whose `thread` is kEndedThreads. In mode full
// a call is counted when its record has been written, so what is counted and not in the trace was lost.
struct CountersHeader {
  std::uint32_t slots;
  std::uint32_t slot_bytes;  // sizeof(ThreadCounters)
  std::uint64_t reserved[7];
};
static_assert(sizeof(CountersHeader) == 64);

// Which entry point was called, whatever came of it; index of ThreadCounters::calls.
enum class Call : std::uint32_t {
  malloc = 0,
  calloc = 1,
  realloc_new = 2,  // realloc(NULL, n)
  aligned = 3,
  operator_new = 4,
  operator_new_aligned = 5,
  reallocation = 6,  // of a block, to n > 0
  free = 7,
  operator_delete = 8,
  realloc_freed = 9,         // realloc(p, 0)
  failed = 10,               // of those that should have returned a new block: so many returned none
  failed_reallocation = 11,  // of `reallocation`
};
inline constexpr std::uint32_t kCalls = 12;
inline constexpr std::uint32_t kCountedSizes =
    49;  // [0], then powers of two: [2^(i-1), 2^i); the last takes all that is larger
inline constexpr std::uint32_t kEndedThreads = 0xffffffff;

struct ThreadCounters {
  std::uint32_t thread;  // id, 0: the slot is free
  std::uint32_t tid;
  std::uint64_t start_tick;
  std::uint64_t end_tick;  // 0: has not ended
  std::uint64_t threads;   // 1; kEndedThreads: how many
  char name[16];
  std::uint64_t calls[kCalls];
  std::uint64_t allocations[kCountedSizes];  // calls that returned a new block, by size asked for
  std::uint64_t bytes[kCountedSizes];        // asked for by those and by reallocations
};
static_assert(sizeof(ThreadCounters) == 928);

// Payload of a `packed_counters` chunk: the header, a zstd frame of so many ThreadCounters, then zeros up to a multiple of 8.
struct PackedCountersHeader {
  std::uint32_t counters;  // at most kMostPackedCounters
  std::uint32_t frame_bytes;
};
static_assert(sizeof(PackedCountersHeader) == 8);
inline constexpr std::uint32_t kMostPackedCounters = 1 << 15;

// ---- stacks ------------------------------------------------------------------------------------------------------
// The stack table is a row of cells, numbered from 1 over all `stacks` chunks, each written once and never changed. A chunk is
// its header (64), StacksHeader (64), then `cells` StackCells. A stack's id is the number of the cell of its innermost frame;
// `parent` leads to the caller's, 0 after the outermost. Two cells may say the same: a stack's identity is what it spells.
struct StacksHeader {
  std::uint32_t first;  // number of the chunk's first cell
  std::uint32_t cells;
  std::uint64_t reserved[7];
};
static_assert(sizeof(StacksHeader) == 64);

enum class CellKind : std::uint32_t {
  none = 0,         // not written, or the process was killed while it was: unknown
  frame = 1,        // code: a return address
  interrupted = 2,  // code: the very instruction at which a signal came; its child is the handler's outermost frame
  cut = 3,          // outermost cell of a stack of which frames further out are missing; code: Cut
  module = 4,       // no frame: the first of payload_cells + 1 cells; the others hold a ModuleRecord and its path
  method = 5,       // no frame: the same of a MethodRecord and a name
  java = 6,         // a frame of code that a JVM made; code: the number of its method
};

enum class Cut : std::uint32_t {
  depth = 1,      // more frames than HEAPSPY_DEPTH
  no_rule = 2,    // nothing says how to go on from there
  bad_stack = 3,  // the next frame would not lie on the stack
};

inline constexpr unsigned kCodeModuleShift = 48;
struct StackCell {
  // frame, interrupted: the address, and from bit 48 the number of its module (0: of none that is known).
  // module, method: its number, from bit 32 how many cells follow that belong to it.
  std::uint64_t code;
  std::uint32_t parent;
  CellKind kind;  // written last
};
static_assert(sizeof(StackCell) == 16);

// Payload of a `packed_stacks` chunk: the header, then three zstd frames one after another, then zeros up to a multiple of 8.
// codes: 8 bytes each. parents, kinds: numbers of 7 bits a byte, as in Column::ticks; of a parent, how far it is below its
// cell, zigzag, modulo 2^32.
struct PackedStacksHeader {
  std::uint32_t first;  // number of the first cell
  std::uint32_t cells;  // at most kMostPackedCells
  std::uint32_t codes_bytes;
  std::uint32_t parents_bytes;
  std::uint32_t kinds_bytes;
  std::uint32_t reserved[3];
};
static_assert(sizeof(PackedStacksHeader) == 32);
inline constexpr std::uint32_t kMostPackedCells = 1 << 18;  // in one chunk

// A library or program from its first frame on; after dlclose its number is not used again.
struct ModuleRecord {
  std::uint64_t start;  // of the mapped file
  std::uint64_t end;
  std::uint64_t bias;            // address minus address in the ELF file
  std::uint32_t build_id_bytes;  // 0: it has none, or none that is mapped
  std::uint32_t path_bytes;      // the path follows (empty: the program itself), then zeros to a multiple of 16
  std::uint8_t build_id[32];
};
static_assert(sizeof(ModuleRecord) == 64);

// A Java method from its first frame on, or one of the JVM's own pieces of code.
struct MethodRecord {
  std::uint32_t name_bytes;  // the name follows, then zeros to a multiple of 16
  std::uint32_t reserved;
};
static_assert(sizeof(MethodRecord) == 8);

// ---- tagged items: payloads of `process` and `snapshot` chunks ---------------------------------------------------
// A payload is a row of items, each a TaggedItem followed by `bytes` bytes and zeros up to a multiple of 8. Unknown
// tags are skipped.
struct TaggedItem {
  std::uint32_t tag;
  std::uint32_t reserved;
  std::uint64_t bytes;
};
static_assert(sizeof(TaggedItem) == 16);

enum class ProcessTag : std::uint32_t {
  exe = 1,      // path of /proc/self/exe
  command = 2,  // /proc/self/cmdline as it is: arguments, each ended by NUL
  host = 3,
  working_folder = 4,
  environment = 5,  // NAME=VALUE, each ended by NUL: MALLOC_*, GLIBC_TUNABLES, LD_PRELOAD, HEAPSPY_*, JAVA_TOOL_OPTIONS
  allocator = 6,    // "glibc", "jemalloc", "tcmalloc", "mimalloc", else the file name of the library that answers malloc
  allocator_version = 7,
  glibc_version = 8,  // gnu_get_libc_version()
  cpus = 9,           // decimal text: those that glibc counts for its limit of arenas (it may run on; before 2.34: online)
  trace_path = 10,    // absolute path of this file when it was made
  front = 11,         // file name of what answers malloc before the recorder; not there where nothing does
};

enum class SnapshotReason : std::uint32_t { peak = 1, exit = 2, requested = 3, interval = 4, before_trim = 5, after_trim = 6 };

enum class SnapshotTag : std::uint32_t {
  info = 1,         // SnapshotInfo; the first item
  mappings = 2,     // MappingRecords, each followed by its name
  residency = 3,    // ResidencyRecords, each followed by its bitmap
  heaps = 4,        // HeapRecords: 64 MiB-aligned regions that look like heaps of glibc's secondary arenas
  threads = 5,      // ThreadRecords
  status_text = 6,  // /proc/self/status as it is
  cgroup_text = 7,  // "file name\n" + content + "\n" of each cgroup file that could be read
  marked = 8,       // ResidencyRecords and bitmaps of pages that bear the recorder's mark still (HEAPSPY_TOUCH): not touched
};

struct SnapshotInfo {
  std::uint64_t begin_tick;
  std::uint64_t end_tick;
  SnapshotReason reason;
  std::uint32_t brk_known;       // 1: brk_end is set
  std::uint64_t brk_end;         // sbrk(0)
  std::uint64_t rss_bytes;       // sum over mappings[].rss_bytes
  std::uint64_t recorder_bytes;  // resident bytes of the recorder's private mappings (its traces' mappings are in the list)
};
static_assert(sizeof(SnapshotInfo) == 48);

// One mapping of /proc/self/smaps, or of maps with its pages counted (a small process: private_dirty stays 0).
struct MappingRecord {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t file_offset;
  std::uint64_t inode;
  std::uint64_t rss_bytes;
  std::uint64_t anonymous_bytes;
  std::uint64_t swap_bytes;
  std::uint64_t anon_huge_bytes;
  std::uint64_t private_dirty_bytes;
  std::uint32_t permissions;  // bit 0 read, 1 write, 2 execute, 3 shared
  std::uint32_t name_bytes;   // the name follows, then zeros to a multiple of 8
};
static_assert(sizeof(MappingRecord) == 80);

enum class Residency : std::uint32_t { unknown = 0, none = 1, all = 2, bitmap = 3 };

// Which pages of a writable private anonymous mapping are in RAM (/proc/self/pagemap bit 63).
struct ResidencyRecord {
  std::uint64_t start;
  std::uint64_t pages;  // of machine_page_bytes
  Residency kind;
  std::uint32_t bitmap_words;  // 64-bit words that follow when kind is bitmap: page i is bit i % 64 of word i / 64
};
static_assert(sizeof(ResidencyRecord) == 24);

// Read from the region's heap_info and, where the region is an arena's first heap, its malloc_state
// (glibc malloc/arena.c and malloc.c, 2.27 to 2.42; `top` is 0 where the layout is not known).
struct HeapRecord {
  std::uint64_t address;
  std::uint64_t arena;         // heap_info.ar_ptr
  std::uint64_t previous;      // heap_info.prev
  std::uint64_t size;          // heap_info.size
  std::uint64_t top;           // first heap of an arena: malloc_state.top, else 0
  std::uint64_t system_bytes;  // first heap of an arena: malloc_state.system_mem, else 0
};
static_assert(sizeof(HeapRecord) == 48);

struct ThreadRecord {
  std::uint32_t tid;
  std::uint32_t reserved;
  char name[16];  // /proc/self/task/TID/comm, NUL-padded
};
static_assert(sizeof(ThreadRecord) == 24);

// ---- checksum ----------------------------------------------------------------------------------------------------
// Four lanes of multiply-xor over 32-byte steps, then the rest word by word. Detects every single flipped bit (each
// step is a bijection of its lane). All sizes are multiples of 8. A result of 0 is replaced by 1: 0 means "none".
class Checksum {
 public:
  explicit Checksum(std::uint64_t all_bytes) : lane_{all_bytes, 1, 2, 3} {}
  // The next part; each but the last is a multiple of 32.
  void add(const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    std::uint64_t a = lane_[0], b = lane_[1], c = lane_[2], d = lane_[3];  // in registers
    for (; bytes >= 32; bytes -= 32, at += 32) {
      a = (a ^ word(at)) * kMultiplier;
      b = (b ^ word(at + 8)) * kMultiplier;
      c = (c ^ word(at + 16)) * kMultiplier;
      d = (d ^ word(at + 24)) * kMultiplier;
    }
    for (; bytes >= 8; bytes -= 8, at += 8) a = (a ^ word(at)) * kMultiplier;
    lane_[0] = a, lane_[1] = b, lane_[2] = c, lane_[3] = d;
  }
  std::uint64_t value() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t lane : lane_) {
      sum = (sum ^ lane ^ (lane >> 29)) * kMultiplier;
      sum ^= sum >> 32;
    }
    return sum ? sum : 1;
  }

 private:
  static constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  static std::uint64_t word(const char* from) {
    std::uint64_t value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
  std::uint64_t lane_[4];
};

inline std::uint64_t checksum(const void* data, std::size_t bytes) {
  Checksum sum(bytes);
  sum.add(data, bytes);
  return sum.value();
}

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace heapspy::format
