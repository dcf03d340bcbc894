#include "analyzer/trace/thread_cursor.h"

#include <algorithm>

#include "analyzer/trace/stack_table.h"
#include "heapspy/format/decode.h"

namespace heapspy::trace {

namespace {

using format::Kind;
using format::Operation;

// Longer rows without a stamp are damage (the recorder stamps at least every 32 words): cut there, window open.
constexpr std::size_t kLongestBatch = 256;
// Reallocs that can be open at once: nested in signal handlers.
constexpr std::size_t kMostOpenReallocs = 64;
constexpr std::size_t kSoon = 64;  // events within which a thread's next one on an address comes "soon"

}  // namespace

Effect effect(const Event& event, std::uint64_t address) {
  if (event.address != address) return event.act == Act::move_late && event.other == address ? Effect::ends : Effect::none;
  switch (event.act) {
    case Act::allocate:
    case Act::move_in:
    case Act::move_late: return Effect::begins;
    case Act::release:
    case Act::realloc_free:
    case Act::move_out: return Effect::ends;
    case Act::resize: return Effect::keeps;
    default: return Effect::none;
  }
}

ThreadCursor::ThreadCursor(const Reader& reader, const ThreadStream& stream, const CursorSettings& settings)
    : reader_(reader), stream_(stream), settings_(settings), pace_(settings.usual_step) {}

bool ThreadCursor::open() {
  fill(next_);
  next();
  return !done_;
}

bool ThreadCursor::next() {
  std::swap(current_, next_);
  at_ = 0;
  next_.events.clear();
  if (current_.events.empty()) {
    done_ = true;
    std::vector<std::uint64_t>().swap(words_);
    std::vector<Sighting>().swap(sightings_);
    return false;
  }
  estimate_ = std::max(estimate_, current_.low);
  fill(next_);
  return true;
}

// To the next piece. False: the stream ends. A record that straddles two pieces is put together again.
bool ThreadCursor::refill() {
  if (next_piece_ == stream_.pieces.size()) return end_counts(), false;
  const StreamPiece& piece = stream_.pieces[next_piece_++];
  carry_.assign(words_.begin() + static_cast<std::ptrdiff_t>(std::min(word_, words_.size())), words_.end());
  if (piece.gap) {
    const bool told = stream_.lost_events || reader_.header().failed_appends;
    compare_counts(words_at_ + words_.size());
    gap_ = told;  // of counts within the gap and of the first one after it
    compare_counts(piece.stream_at);
    gap_ = told;
    carry_.clear();
    reallocs_.clear();  // their ends are lost
    stacks_said_.lose();
    if (piece.first_tick <= settings_.latest) stamp_ = std::max(stamp_, piece.first_tick);
  } else if (next_piece_ == 1 && piece.first_tick <= settings_.latest) {
    stamp_ = piece.first_tick;
  }
  reader_.read(piece, words_, &sightings_);
  words_read_ += piece.words;
  if (words_.size() < piece.words) {  // damaged
    carry_.clear();
    reallocs_.clear();
    stacks_said_.lose();
  }
  words_at_ = piece.stream_at - carry_.size();
  if (!carry_.empty()) words_.insert(words_.begin(), carry_.begin(), carry_.end());
  word_ = 0;
  next_sighting_ = 0;
  if (settings_.clock == format::Clock::event) sightings_.clear();  // it is more exact
  find_stop();
  return true;
}

// The words up to the next sighting or count that says something.
void ThreadCursor::find_stop() {
  stop_ = words_.size();
  if (next_count_ < stream_.counts.size() && stream_.counts[next_count_].place >= words_at_)
    stop_ = std::min(stop_, static_cast<std::size_t>(stream_.counts[next_count_].place - words_at_));
  for (; next_sighting_ < sightings_.size(); next_sighting_++) {
    const Sighting& next = sightings_[next_sighting_];
    if (next.seen > settings_.latest || next.empty > settings_.latest || next.at < words_at_) continue;
    stop_ = std::min(stop_, static_cast<std::size_t>(next.at - words_at_));
    return;
  }
}

// Holds what was found against what the thread counted, at every place up to `passed`.
void ThreadCursor::compare_counts(std::uint64_t passed) {
  while (next_count_ < stream_.counts.size() && stream_.counts[next_count_].place <= passed) {
    const StreamCount& count = stream_.counts[next_count_++];
    // Modulo 2^64: a damaged stream may hold more than were counted.
    const std::uint64_t more = count.records - records_;
    if (more != agreed_ && !gap_) reader_.note_count(stream_, count.place, records_ + agreed_, count.records);
    agreed_ = more;
    gap_ = false;
  }
}

// What the thread counted beyond the end of what there is. (Of a process that runs the newest words may come later.)
void ThreadCursor::end_counts() {
  if (next_count_ == stream_.counts.size()) return;
  next_count_ = stream_.counts.size();
  const StreamCount& last = stream_.counts.back();
  const bool told = gap_ || stream_.lost_events || reader_.header().failed_appends || reader_.process().running;
  if (!told && last.records > records_ + agreed_) reader_.note_count(stream_, last.place, records_ + agreed_, last.records);
}

// The common case, a record of one word: the same as format::decode would make of it, without the detour.
inline void ThreadCursor::decode_short(Batch& batch, std::uint64_t word) {
  constexpr Origin kOrigins[8] = {Origin::malloc,       Origin::malloc,  Origin::malloc,  Origin::calloc,
                                  Origin::operator_new, Origin::realloc, Origin::realloc, Origin::realloc};
  Event event;
  event.address = (word & ~format::kLapBit) >> format::kAddressShift << 4;
  event.size = word >> format::kSizeShift & (format::kShortSizeLimit - 1);
  if (!event.address) return;  // NULL is never a block
  const auto operation = static_cast<Operation>(word & 7);
  switch (operation) {
    case Operation::realloc_begin: return begin_realloc(batch, event.address);
    case Operation::realloc_end: return end_realloc(batch, event.address, event.size, Act::move_in);
    case Operation::free:
      event.act = Act::release;
      event.detail = event.size == static_cast<std::uint64_t>(Release::operator_delete);
      event.size = 0;
      break;
    default:
      event.act = Act::allocate;
      event.detail = static_cast<std::uint8_t>(kOrigins[word & 7]);
      event.site = next_site();
  }
  event.counts = true;
  batch.events.push_back(event);
}

void ThreadCursor::begin_realloc(Batch& batch, std::uint64_t address) {
  if (reallocs_.size() == kMostOpenReallocs) reallocs_.erase(reallocs_.begin());
  reallocs_.push_back({address, batch.number, batch.events.size()});
  Event event;
  event.address = address;
  event.act = Act::undecided;
  batch.events.push_back(event);
}

// Reads records up to the stamp after the first events.
void ThreadCursor::fill(Batch& batch) {
  batch.events.clear();
  batch.number = ++batches_;
  batch.low = stamp_;
  filling_ = &batch;
  for (;;) {
    if (word_ >= stop_) {
      compare_counts(words_at_ + word_);
      if (next_sighting_ < sightings_.size() && word_ + words_at_ >= sightings_[next_sighting_].at) {
        // Somebody looked here: these events had come by then, those to come had not.
        const Sighting sighting = sightings_[next_sighting_++];
        find_stop();
        stamp_ = std::max(stamp_, sighting.empty);
        if (!batch.events.empty()) return set_window(batch, Closing::off_cpu, std::max(sighting.seen, batch.low));
        batch.low = stamp_;
        continue;
      }
      if (word_ < words_.size()) {
        find_stop();
        continue;
      }
      const std::size_t piece = next_piece_;
      if (!refill()) return set_window(batch, Closing::end, kEndless);
      if (batch.events.empty()) batch.low = std::max(batch.low, stamp_);
      // A gap: what follows has a window of its own.
      if (stream_.pieces[piece].gap && !batch.events.empty())
        return set_window(batch, Closing::off_cpu, std::max(stamp_, batch.low));
      continue;
    }
    const std::uint64_t word = words_[word_];
    if (format::is_stamp(word)) {
      word_++;
      records_++;
      if (const Tick tick = (word & ~format::kLapBit) >> format::kTickShift; tick <= settings_.latest)
        stamp_ = std::max(stamp_, tick);
      if (batch.events.empty()) {
        batch.low = stamp_;
        continue;
      }
      const bool off_cpu = (word & 0xFF) == static_cast<std::uint64_t>(Kind::stamp_off_cpu) << format::kKindShift;
      return set_window(batch, off_cpu ? Closing::off_cpu : Closing::stamp, stamp_);
    }
    if (batch.events.size() >= kLongestBatch) return set_window(batch, Closing::end, kEndless);
    if (word & 7) [[likely]] {
      word_++;
      records_++;
      decode_short(batch, word);
      continue;
    }
    std::uint32_t words = 0;
    decode_long(batch, &words_[word_], words_.size() - word_, words);
    if (words) {
      word_ += words;
      records_++;
      continue;
    }
    // Cut by the end of the piece: the rest is in the next one. No record at all (a word that was never written, or
    // damage): on to the next word.
    const std::uint32_t wanted = format::record_words(word);
    if (wanted > words_.size() - word_ && next_piece_ < stream_.pieces.size() && !stream_.pieces[next_piece_].gap)
      refill();
    else
      word_++, stacks_said_.lose();  // it may have been where what follows comes from
  }
}

void ThreadCursor::set_window(Batch& batch, Closing closing, Tick high) {
  const std::uint64_t events = std::max<std::size_t>(batch.events.size(), 1);
  batch.high = high;
  batch.step = pace_;
  if (settings_.clock == format::Clock::event) {
    batch.high = batch.low + settings_.exact_window;
    batch.step = events == 1 ? 0 : std::min(pace_, settings_.exact_window / events);
    return;
  }
  if (closing == Closing::end) {
    // Nothing follows. Had the thread been off the CPU between these events, a stamp would say so: they came soon.
    if (settings_.last_window) batch.high = batch.low + std::max(settings_.last_window, events * pace_);
    return;
  }
  const Tick even = (high - batch.low) / events;
  if (closing == Closing::off_cpu) {
    // They came right after the stamp before them, in a row; the gap is at the end. The pace may be that of other times: of a
    // thread that waits between its events without leaving the CPU.
    batch.step = std::min({even, pace_, settings_.usual_step});
  } else {
    batch.step = even;
    pace_ = (pace_ * 3 + even) / 4;
  }
}

const Event* ThreadCursor::next_on(std::uint64_t address, std::size_t skip) const {
  std::size_t left = kSoon;
  const auto search = [&](const Batch& batch, std::size_t from) -> const Event* {
    for (std::size_t i = from; i < batch.events.size() && left; i++, left--)
      if (effect(batch.events[i], address) != Effect::none) return &batch.events[i];
    return nullptr;
  };
  const Event* found = search(current_, at_ + skip);
  return found || !left ? found : search(next_, 0);
}

std::string ThreadCursor::take_text() {
  if (texts_.empty()) return {};
  std::string text = std::move(texts_.front());
  texts_.pop_front();
  return text;
}

Event* ThreadCursor::realloc_begin_of(const OpenRealloc& open) {
  for (Batch* batch : {filling_, &current_, &next_})
    if (batch->number == open.batch && open.at < batch->events.size()) {
      // Passed by already?
      if (batch == &current_ && batch != filling_ && open.at < at_) return nullptr;
      return &batch->events[open.at];
    }
  return nullptr;
}

SiteId ThreadCursor::next_site() {
  const std::uint32_t cell = stacks_said_.next();
  if (cell != cell_of_site_) site_ = reader_.stacks().site(cell_of_site_ = cell);
  return site_;
}

// Joins a realloc's end to the begin that is open: the innermost, should a signal handler have come in between.
void ThreadCursor::end_realloc(Batch& batch, std::uint64_t address, std::uint64_t size, Act how) {
  Event end;
  end.address = address;
  end.size = size;
  end.counts = true;
  if (how == Act::move_in) end.site = next_site();
  if (reallocs_.empty()) {
    // Its begin is lost: all that is known is that a block lives there now.
    end.act = how == Act::move_in ? Act::move_late : how == Act::failed ? Act::failed : Act::nothing;
    end.detail = static_cast<std::uint8_t>(Origin::realloc);
    batch.events.push_back(end);
    return;
  }
  const OpenRealloc open = reallocs_.back();
  reallocs_.pop_back();
  Event* begin = realloc_begin_of(open);
  end.other = open.address;
  switch (how) {
    case Act::failed:
      if (begin) begin->act = Act::nothing;
      end.act = Act::failed;
      end.detail = static_cast<std::uint8_t>(Origin::realloc);
      break;
    case Act::realloc_free:
      if (begin) begin->act = Act::realloc_free;
      end.act = begin ? Act::nothing : Act::realloc_free;
      end.address = open.address;
      break;
    default:
      if (begin && open.address == address) {
        begin->act = Act::resize;
        begin->size = size;
        begin->site = end.site;
        end.act = Act::nothing;
      } else if (begin) {
        begin->act = Act::move_out;
        end.act = Act::move_in;
      } else {
        end.act = Act::move_late;
      }
  }
  batch.events.push_back(end);
}

// A longer record as an event of `batch`. `words` 0: none could be read.
void ThreadCursor::decode_long(Batch& batch, const std::uint64_t* from, std::size_t available, std::uint32_t& words) {
  const format::Record record = format::decode(from, available);
  words = record.words;
  if (!words) return;
  Event event;
  event.address = record.address;
  event.size = record.size;
  auto allocate = [&](Origin origin) {
    if (!event.address) return;  // NULL is never a block
    event.act = Act::allocate;
    event.detail = static_cast<std::uint8_t>(origin);
    event.site = next_site();
    event.counts = true;
    batch.events.push_back(event);
  };
  auto release = [&](std::uint64_t how) {
    if (!event.address) return;
    event.act = Act::release;
    event.size = 0;
    event.detail = how == static_cast<std::uint64_t>(Release::operator_delete) ? 1 : 0;
    event.counts = true;
    batch.events.push_back(event);
  };
  auto with_text = [&](Act act) {
    char text[format::kMaxRecordWords * 8 * format::kTextBytesPerWord];
    const std::size_t length = format::decode_text(record, text, sizeof text);
    texts_.emplace_back(text, length);
    event.act = act;
    event.size = record.payload;
    batch.events.push_back(event);
  };

  switch (record.kind) {
    case Kind::allocation: {
      const std::uint64_t origin = record.payload & 0xFF;
      const bool known = origin >= static_cast<std::uint64_t>(Origin::malloc) &&
                         origin <= static_cast<std::uint64_t>(Origin::operator_new_aligned);
      return allocate(known ? static_cast<Origin>(origin) : Origin::malloc);
    }
    case Kind::release: return release(record.payload);
    case Kind::realloc_begin:
      if (event.address) begin_realloc(batch, event.address);
      return;
    case Kind::realloc_end:
      if (event.address) end_realloc(batch, event.address, event.size, Act::move_in);
      return;
    case Kind::failed: {
      const std::uint64_t origin = record.payload & 0xFF;
      event.act = Act::failed;
      event.detail = static_cast<std::uint8_t>(std::clamp<std::uint64_t>(origin, 1, 6));
      event.counts = true;
      batch.events.push_back(event);
      return;
    }
    case Kind::touched:
      event.act = Act::touched;
      event.size = record.payload;
      batch.events.push_back(event);
      return;
    case Kind::realloc_failed: return end_realloc(batch, 0, record.size, Act::failed);
    case Kind::realloc_freed: return end_realloc(batch, 0, 0, Act::realloc_free);
    case Kind::thread_start: return with_text(Act::thread_start);
    case Kind::thread_name: return with_text(Act::thread_name);
    case Kind::java_thread: return with_text(Act::java_thread);
    case Kind::stack: return stacks_said_.is(record.payload);
    case Kind::next_stack: return stacks_said_.is_next(record.payload);
    case Kind::thread_end:
      event.act = Act::thread_end;
      batch.events.push_back(event);
      return;
    case Kind::mark:
    case Kind::paused:
    case Kind::resumed: event.detail = static_cast<std::uint8_t>(record.kind); return with_text(Act::mark);
    default: return;  // a kind that this program does not know, or a stamp that decode() took as one: nothing to tell
  }
}

}  // namespace heapspy::trace
