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

// Of the whole pages of a block; nullopt: not known of all.
std::optional<std::uint64_t> resident_pages(const trace::Snapshot& snapshot, std::uint64_t address, std::uint64_t size) {
  std::uint64_t resident = 0, page = (address + kPage - 1) & ~(kPage - 1);
  auto record = std::upper_bound(snapshot.resident.begin(), snapshot.resident.end(), page,
                                 [](std::uint64_t at, const trace::ResidentPages& each) { return at < each.start; });
  if (record == snapshot.resident.begin()) return std::nullopt;
  --record;
  for (; page + kPage <= address + size; page += kPage) {
    const auto known = record->resident((page - record->start) / snapshot.page_bytes);
    if (!known) return std::nullopt;
    resident += *known;
  }
  return resident;
}

}  // namespace

OperationsWriter::OperationsWriter(const std::string& path, const trace::Clock& clock, Touch touch)
    : clock_(clock), touch_(touch), path_(path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  file_ = fd < 0 ? nullptr : ::fdopen(fd, "w+");
  if (!file_) throw OperationsNotWritten(fmt::format("{}: {}; TMPDIR names another folder", path, std::strerror(errno)));
  const OperationsHeader nothing{};
  failed_ = std::fwrite(&nothing, sizeof nothing, 1, file_) != 1;
}

OperationsWriter::~OperationsWriter() {
  if (file_) std::fclose(file_);
}

Operation OperationsWriter::operation(Play play, ThreadId thread, Tick tick) {
  Operation operation{};
  last_us_ = std::max(last_us_, static_cast<std::uint64_t>(std::max(clock_.seconds(tick), 0.0) * 1e6));
  operation.time_us = last_us_;
  operation.thread = player_of(thread);
  operation.play = play;
  return operation;
}

std::uint64_t OperationsWriter::write(const Operation& operation) {
  failed_ |= std::fwrite(&operation, sizeof operation, 1, file_) != 1;
  return written_++;
}

std::uint32_t OperationsWriter::take_slot() {
  if (free_slots_.empty()) return slots_++;
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

// The first thread of a trace is the program's main thread. Players that ended are used again.
std::uint32_t OperationsWriter::player_of(ThreadId thread) {
  const auto [at, added] = players_.try_emplace(index(thread), 0);
  if (!added || !std::exchange(main_seen_, true)) return at->second;
  if (free_players_.empty()) return at->second = threads_++;
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
  Operation next = operation(play, block.thread, tick);
  next.size = block.size;
  next.slot = take_slot();
  next.touch_pages = kTouchAll;
  if (play == Play::aligned) next.log2_alignment = static_cast<std::uint8_t>(alignment_of(block));
  const std::uint64_t place = write(next);
  live_[block.address] = {next.slot, block.size, place};
}

void OperationsWriter::release(std::uint64_t address, ThreadId by, Tick tick) {
  const auto at = live_.find(address);
  if (at == live_.end()) {
    left_out_++;
    return;
  }
  Operation next = operation(Play::free, by, tick);
  next.slot = at->second.slot;
  write(next);
  free_slots_.push_back(next.slot);
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
  Operation next = operation(Play::realloc, by, tick);
  next.size = after.size;
  next.slot = at->second.slot;
  next.touch_pages = kTouchAll;
  live_.erase(at);
  if (live_.count(after.address)) release(after.address, by, tick);
  const std::uint64_t place = write(next);
  live_[after.address] = {next.slot, after.size, place};
}

// Another block lives at its address: what is said here says nothing about that one.
void OperationsWriter::lived_before(const Block& block, ThreadId by, trace::Release, Tick tick) {
  Operation next = operation(Play::malloc, block.thread, tick);
  next.size = block.size;
  next.slot = take_slot();
  next.touch_pages = kTouchAll;
  write(next);
  Operation end = operation(Play::free, by, tick);
  end.slot = next.slot;
  write(end);
  free_slots_.push_back(next.slot);
}

void OperationsWriter::thread_ended(ThreadId thread, Tick tick) {
  const auto at = players_.find(index(thread));
  if (at == players_.end() || at->second == 0) return;
  write(operation(Play::thread_end, thread, tick));
  free_players_.push_back(at->second);
  players_.erase(at);
}

void OperationsWriter::snapshot_taken(const trace::Snapshot& snapshot) {
  Operation next{};
  last_us_ = std::max(last_us_, static_cast<std::uint64_t>(std::max(clock_.seconds(snapshot.begin), 0.0) * 1e6));
  next.time_us = last_us_;
  next.play = Play::measure;
  write(next);
  if (touch_ != Touch::estimated || snapshot.page_bytes != kPage) return;
  for (const auto& [address, placed] : live_) {
    if (placed.size < kPartlyTouchedFrom) continue;
    const auto resident = resident_pages(snapshot, address, placed.size);
    if (!resident) continue;
    std::uint32_t& most = seen_[placed.operation];
    most = std::max(most, static_cast<std::uint32_t>(*resident));
    const auto pages = static_cast<double>(whole_pages(address, placed.size));
    for (Share* share : {&by_size_[placed.size], &by_power_[static_cast<unsigned>(std::bit_width(placed.size))]}) {
      share->resident += static_cast<double>(*resident);
      share->pages += pages;
    }
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
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ::fileno(file_), 0);
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
    } else if (const auto seen = seen_.find(i); seen != seen_.end()) {
      each.touch_pages = seen->second;
    } else {
      each.touch_pages = touched_pages(each.size);
    }
  }
  ::munmap(mapped, bytes);
}

void OperationsWriter::finish(Tick end) {
  Operation last{};
  last.time_us = std::max(last_us_, static_cast<std::uint64_t>(std::max(clock_.seconds(end), 0.0) * 1e6));
  last.play = Play::end;
  write(last);
  OperationsHeader header{};
  std::memcpy(header.magic, kOperationsMagic, sizeof header.magic);
  header.operations = written_;
  header.slots = slots_;
  header.threads = threads_;
  failed_ |= std::fflush(file_) != 0 || std::fseek(file_, 0, SEEK_SET) != 0 ||
             std::fwrite(&header, sizeof header, 1, file_) != 1 || std::fflush(file_) != 0;
  if (!failed_) estimate_touches();
  if (failed_) throw OperationsNotWritten(fmt::format("{}: {}; TMPDIR names another folder", path_, std::strerror(errno)));
}

}  // namespace heapspy::trial
