#include "analyzer/trial/operations_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "analyzer/trace/mallopt_call.h"

namespace heapspy::trial {

namespace {

using trace::Block;
using trace::ThreadId;
using trace::Tick;

constexpr std::uint64_t kPage = 4096;
constexpr unsigned kLargestAlignment = 12;  // more is by chance

// The alignment asked for is not told; the address was a multiple of it.
unsigned alignment_of(const Block& block) {
  return std::clamp<unsigned>(static_cast<unsigned>(std::countr_zero(block.address | 1ull << 63)), 4, kLargestAlignment);
}

std::uint64_t whole_pages(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t first = (address + kPage - 1) / kPage, last = (address + size) / kPage;
  return last > first ? last - first : 0;
}

// What `records` say of the mapping that `page` lies in.
const trace::ResidentPages* record_of(const std::vector<trace::ResidentPages>& records, std::uint64_t page) {
  const auto after = std::upper_bound(records.begin(), records.end(), page,
                                      [](std::uint64_t at, const trace::ResidentPages& each) { return at < each.start; });
  return after == records.begin() ? nullptr : &*(after - 1);
}

// Of the whole pages of a block those that are in RAM and were not found untouched; nullopt: not known of all.
std::optional<std::uint64_t> touched_pages_of(const trace::Snapshot& snapshot, std::uint64_t address, std::uint64_t size) {
  std::uint64_t touched = 0, page = (address + kPage - 1) & ~(kPage - 1);
  const trace::ResidentPages* resident = record_of(snapshot.resident, page);
  const trace::ResidentPages* marked = record_of(snapshot.marked, page);
  if (!resident) return std::nullopt;
  for (; page + kPage <= address + size; page += kPage) {
    const auto known = resident->resident((page - resident->start) / kPage);
    if (!known) return std::nullopt;
    touched += *known && !(marked && marked->resident((page - marked->start) / kPage).value_or(false));
  }
  return touched;
}

// Private memory without a file: a heap is somewhere in it.
std::uint64_t heap_at_most(const trace::Snapshot& snapshot) {
  std::uint64_t bytes = 0;
  for (const trace::Mapping& each : snapshot.mappings)
    if (each.write && !each.shared && (each.name.empty() || each.name == "[heap]")) bytes += each.rss_bytes;
  return bytes - std::min(bytes, snapshot.recorder_bytes);
}

constexpr std::uint32_t kMostThreads = 16384;  // at a time: each is a thread of the replay
constexpr std::size_t kBuffered = 8192;
constexpr std::size_t kApart = 8192;  // slots that others take before one is taken again: more than operations of a window
constexpr std::uint64_t kNever = ~0ull;
constexpr std::size_t kMostSizes = 65536;  // that have a share of their own

}  // namespace

OperationsWriter::OperationsWriter(const std::string& path, const trace::Clock& clock, Touch touch)
    : clock_(clock), touch_(touch), path_(path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) throw OperationsNotWritten(fmt::format("{}: {}; TMPDIR names another folder", path, std::strerror(errno)));
  buffer_.reserve(kBuffered);
}

OperationsWriter::~OperationsWriter() { ::close(file_); }

std::uint64_t OperationsWriter::played_us(Tick tick) {
  Tick waited = stood_still_;
  if (tick > snapshot_begin_) waited += std::min(tick, snapshot_end_) - snapshot_begin_;
  const double seconds = clock_.seconds(tick - std::min(tick, waited));
  return last_us_ = std::max(last_us_, static_cast<std::uint64_t>(std::max(seconds, 0.0) * 1e6));
}

Operation OperationsWriter::operation(Play play, ThreadId thread, Tick tick) {
  Operation operation{};
  operation.time_us = played_us(tick);
  operation.thread = player_of(thread);
  operation.play = play;
  return operation;
}

// Of the allocator. Returns its place.
std::uint64_t OperationsWriter::call(Play play, ThreadId thread, Tick tick, std::uint32_t slot, std::uint64_t size,
                                     unsigned log2_alignment) {
  Operation next = operation(play, thread, tick);
  next.size = size;
  next.slot = slot;
  const std::uint64_t ago = written_ - latest_[slot];
  next.since = latest_[slot] == kNever || ago > UINT16_MAX ? 0 : static_cast<std::uint16_t>(ago);
  latest_[slot] = written_;
  next.touch_pages = play == Play::free ? 0 : kTouchAll;
  next.log2_alignment = static_cast<std::uint8_t>(log2_alignment);
  calls_++;
  return write(next);
}

std::uint64_t OperationsWriter::write(const Operation& operation) {
  if (buffer_.size() == kBuffered) flush();
  buffer_.push_back(operation);
  return written_++;
}

void OperationsWriter::flush() {
  const std::size_t bytes = buffer_.size() * sizeof(Operation);
  const std::uint64_t at = sizeof(OperationsHeader) + (written_ - buffer_.size()) * sizeof(Operation);
  failed_ |= ::pwrite(file_, buffer_.data(), bytes, static_cast<off_t>(at)) != static_cast<ssize_t>(bytes);
  buffer_.clear();
}

// Of an operation that is written already.
void OperationsWriter::set_pages(std::uint64_t place, std::uint32_t pages) {
  const std::uint64_t flushed = written_ - buffer_.size();
  if (place >= flushed) {
    buffer_[place - flushed].touch_pages = pages;
    return;
  }
  const std::uint64_t at = sizeof(OperationsHeader) + place * sizeof(Operation) + offsetof(Operation, touch_pages);
  failed_ |= ::pwrite(file_, &pages, sizeof pages, static_cast<off_t>(at)) != sizeof pages;
}

void OperationsWriter::note_share(std::uint64_t size, std::uint64_t touched, std::uint64_t pages) {
  const auto note = [&](Share& share) {
    share.resident += static_cast<double>(touched);
    share.pages += static_cast<double>(pages);
  };
  if (by_size_.size() < kMostSizes || by_size_.count(size)) note(by_size_[size]);
  note(by_power_[static_cast<unsigned>(std::bit_width(size))]);
}

void OperationsWriter::touched(ThreadId thread, std::uint64_t address, std::uint64_t pages) {
  touch_told_ = true;
  told_[index(thread)] = {address, pages};
}

// At the release of a block: what its owner touched of it, if that was told.
void OperationsWriter::take_told(const Placed& placed, std::uint64_t address, ThreadId by) {
  const auto told = told_.find(index(by));
  if (told == told_.end()) return;
  const std::uint64_t pages = told->second.pages;
  const bool of_this = told->second.address == address;
  told_.erase(told);
  if (!of_this || touch_ != Touch::recorded || placed.size < kPartlyTouchedFrom) return;
  const std::uint64_t all = whole_pages(address, placed.size), touched = std::min(pages, all);
  set_pages(placed.operation, touched == all ? kTouchEach : static_cast<std::uint32_t>(touched));
  note_share(placed.size, touched, all);
}

// Of many threads, those that play at once would wait for each other where one takes the slot that another has just left.
std::uint32_t OperationsWriter::take_slot() {
  const bool apart = threads_ > 1;
  if (free_slots_.size() <= (apart ? kApart : 0))
    return latest_.push_back(kNever), static_cast<std::uint32_t>(latest_.size() - 1);
  const std::uint32_t slot = apart ? free_slots_.front() : free_slots_.back();
  apart ? free_slots_.pop_front() : free_slots_.pop_back();
  return slot;
}

// The first thread of a trace is the program's main thread. Players that ended are used again.
std::uint32_t OperationsWriter::player_of(ThreadId thread) {
  const auto [at, added] = players_.try_emplace(index(thread), 0);
  if (!added || !std::exchange(main_seen_, true)) return at->second;
  if (free_players_.empty()) {
    if (threads_ == kMostThreads)
      throw OperationsNotWritten(
          fmt::format("the trace has more than {} threads at a time; so many are not played", kMostThreads));
    return at->second = threads_++;
  }
  at->second = free_players_.back();
  free_players_.pop_back();
  return at->second;
}

void OperationsWriter::allocated(const Block& block, Tick tick) {
  if (live_.count(block.address)) release(block.address, block.thread, tick);
  const Play play = block.origin == trace::Origin::calloc ? Play::calloc
                    : block.origin == trace::Origin::aligned || block.origin == trace::Origin::operator_new_aligned
                        ? Play::aligned
                        : Play::malloc;
  const std::uint32_t slot = take_slot();
  const unsigned alignment = play == Play::aligned ? alignment_of(block) : 0;
  live_[block.address] = {slot, block.size, call(play, block.thread, tick, slot, block.size, alignment)};
}

void OperationsWriter::release(std::uint64_t address, ThreadId by, Tick tick) {
  const auto at = live_.find(address);
  if (at == live_.end()) {
    left_out_++;
    return;
  }
  take_told(at->second, address, by);
  call(Play::free, by, tick, at->second.slot);
  free_slots_.push_back(at->second.slot);
  live_.erase(at);
}

void OperationsWriter::released(const Block& block, ThreadId by, trace::Release, Tick tick) {
  release(block.address, by, tick);
}
void OperationsWriter::vanished(const Block& block, Tick tick) { release(block.address, block.thread, tick); }
void OperationsWriter::unknown_release(ThreadId, std::uint64_t, trace::Release, bool, Tick) { left_out_++; }

void OperationsWriter::resized(const Block& before, const Block& after, ThreadId by, Tick tick) {
  const auto at = live_.find(before.address);
  if (!before.known || at == live_.end()) {
    left_out_++;
    Block fresh = after;
    fresh.thread = by;
    fresh.origin = trace::Origin::malloc;
    return allocated(fresh, tick);
  }
  take_told(at->second, before.address, by);
  const std::uint32_t slot = at->second.slot;
  live_.erase(at);
  if (live_.count(after.address)) release(after.address, by, tick);
  live_[after.address] = {slot, after.size, call(Play::realloc, by, tick, slot, after.size)};
}

// Another block lives at its address: what is said here says nothing about that one.
void OperationsWriter::lived_before(const Block& block, ThreadId by, trace::Release, Tick tick) {
  const std::uint32_t slot = take_slot();
  call(Play::malloc, block.thread, tick, slot, block.size);
  call(Play::free, by, tick, slot);
  free_slots_.push_back(slot);
}

void OperationsWriter::thread_ended(ThreadId thread, Tick tick) {
  const auto at = players_.find(index(thread));
  if (at == players_.end() || at->second == 0) return;
  write(operation(Play::thread_end, thread, tick));
  free_players_.push_back(at->second);
  players_.erase(at);
}

// What the program set by mallopt holds under every setting: it comes after the environment.
void OperationsWriter::marked(ThreadId thread, std::string_view text, Tick tick) {
  const auto set = trace::mallopt_call(text);
  if (!set) return;
  Operation next = operation(Play::mallopt, thread, tick);
  next.slot = static_cast<std::uint32_t>(set->parameter);
  next.size = static_cast<std::uint64_t>(set->value);
  write(next);
}

void OperationsWriter::snapshot_taken(const trace::Snapshot& snapshot) {
  Operation next{};
  next.time_us = played_us(snapshot.begin);
  next.play = Play::measure;
  if (snapshot.end > snapshot.begin && snapshot.begin >= snapshot_end_ &&
      (threads_ == 1 || snapshot.reason == format::SnapshotReason::exit)) {
    stood_still_ += snapshot_end_ - snapshot_begin_;
    snapshot_begin_ = snapshot.begin;
    snapshot_end_ = snapshot.end;
  }
  write(next);
  if (snapshot.reason == format::SnapshotReason::exit && !snapshot.mappings.empty()) heap_at_exit_ = heap_at_most(snapshot);
  if (touch_ != Touch::recorded || snapshot.page_bytes != kPage) return;
  for (auto& [address, placed] : live_) {
    if (placed.size < kPartlyTouchedFrom) continue;
    const auto touched = touched_pages_of(snapshot, address, placed.size);
    if (!touched) continue;
    const std::uint64_t all = whole_pages(address, placed.size);
    placed.seen = std::max(placed.seen, static_cast<std::uint32_t>(*touched));
    set_pages(placed.operation, placed.seen == all ? kTouchEach : placed.seen);
    note_share(placed.size, *touched, all);
  }
}

std::uint32_t OperationsWriter::touched_pages(std::uint64_t size) const {
  const auto exact = by_size_.find(size);
  const Share& share = exact != by_size_.end() ? exact->second : by_power_[static_cast<unsigned>(std::bit_width(size))];
  if (share.pages <= 0) return kTouchAll;
  const std::uint64_t pages = size / kPage;
  return static_cast<std::uint32_t>(std::llround(share.resident / share.pages * static_cast<double>(pages)));
}

void OperationsWriter::estimate_touches() {
  if (touch_ == Touch::all) return;
  const std::size_t bytes = sizeof(OperationsHeader) + written_ * sizeof(Operation);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) {
    failed_ = true;
    return;
  }
  auto* operations = reinterpret_cast<Operation*>(static_cast<OperationsHeader*>(mapped) + 1);
  for (std::uint64_t i = 0; i < written_; i++) {
    Operation& each = operations[i];
    if (each.touch_pages != kTouchAll || each.size < kPartlyTouchedFrom) continue;
    if (touch_ == Touch::none) {
      each.touch_pages = 0;
    } else {
      each.touch_pages = touched_pages(each.size);
    }
  }
  ::munmap(mapped, bytes);
}

void OperationsWriter::finish(Tick end) {
  Operation last{};
  last.time_us = played_us(end);
  last.play = Play::end;
  write(last);
  OperationsHeader header{};
  std::memcpy(header.magic, kOperationsMagic, sizeof header.magic);
  header.operations = written_;
  header.slots = static_cast<std::uint32_t>(latest_.size());
  header.calls = calls_;
  header.threads = threads_;
  flush();
  failed_ |= ::pwrite(file_, &header, sizeof header, 0) != sizeof header;
  if (!failed_) estimate_touches();
  if (failed_) throw OperationsNotWritten(fmt::format("{}: {}; TMPDIR names another folder", path_, std::strerror(errno)));
}

}  // namespace heapspy::trial
