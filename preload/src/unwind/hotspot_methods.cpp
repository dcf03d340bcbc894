#include "hotspot_methods.h"

#include <sys/mman.h>

#include "hotspot_scopes.h"
#include "recorder.h"
#include "text.h"

namespace heapspy::unwind {

using namespace format;

namespace {

uint64_t at(uint64_t address, int32_t offset) { return address + static_cast<uint64_t>(offset); }
uint64_t word_at(uint64_t address, int32_t offset) { return *reinterpret_cast<const volatile uint64_t*>(at(address, offset)); }
uint32_t half_at(uint64_t address, int32_t offset) { return *reinterpret_cast<const volatile uint16_t*>(at(address, offset)); }

// Where it is not sure that there is anything.
bool load(uint64_t address, int32_t offset, uint64_t* to) {
  const uint64_t from = at(address, offset);
  if (address < 4096 || address >> 47 || (from & 7) || !os::is_readable(from)) return false;
  *to = word_at(address, offset);
  return true;
}
bool load_half(uint64_t address, int32_t offset, uint64_t* to) {
  const uint64_t from = at(address, offset);
  uint64_t word;
  if ((from & 1) || !load(from & ~7ull, 0, &word)) return false;
  *to = word >> (from & 6) * 8 & 0xffff;
  return true;
}

}  // namespace

bool HotspotMethods::read_symbol(uint64_t symbol, Text* to) const {
  uint64_t bytes;
  if ((symbol & 7) || !load_half(symbol, structs_->symbol_length, &bytes) || !bytes || bytes > 4096) return false;
  const uint64_t text = at(symbol, structs_->symbol_body);
  if (!os::is_readable(text + bytes - 1 - 7)) return false;
  *to = {reinterpret_cast<const char*>(text), bytes};
  for (uint64_t i = 0; i < bytes; i++)
    if (static_cast<uint8_t>(to->at[i]) < ' ') return false;
  return true;
}

bool HotspotMethods::read(uint64_t method, Parts* to) const {
  const HotspotStructs& s = *structs_;
  uint64_t constant, pool, length, name, signature, symbol;
  return !(method & 7) && load(method, s.const_method, &constant) && load(constant, s.constants, &pool) &&
         load_half(constant, s.name_index, &name) && load_half(constant, s.signature_index, &signature) &&
         load(pool, s.pool_length & ~7, &length) && load(pool, s.pool_holder, &to->klass) &&
         name < (length = length >> (s.pool_length & 4) * 8 & 0xffffffff) && signature < length &&
         load(to->klass, s.klass_name, &symbol) && read_symbol(symbol, &to->klass_name) &&
         load(pool, s.pool_bytes + 8 * static_cast<int32_t>(name), &symbol) && read_symbol(symbol, &to->name) &&
         load(pool, s.pool_bytes + 8 * static_cast<int32_t>(signature), &symbol) && read_symbol(symbol, &to->signature) &&
         to->signature.at[0] == '(';
}

bool HotspotMethods::is_mortal(uint64_t klass) const {
  uint64_t loader_data, loader, one_class;
  if (!load(klass, structs_->klass_loader_data, &loader_data) || !load(loader_data, structs_->loader, &loader) ||
      !load_half(loader_data, structs_->loader_is_of_one_class & ~1, &one_class))
    return true;
  return loader || (one_class >> (structs_->loader_is_of_one_class & 1) * 8 & 0xff);
}

bool HotspotMethods::check(const HotspotStructs& structs, uint64_t object_klass) {
  structs_ = &structs;
  constexpr Text kObject = {"java/lang/Object", 16};
  uint64_t methods, first;
  Parts parts;
  return load(object_klass, structs.klass_methods, &methods) && load(methods, structs.methods_data, &first) &&
         read(first, &parts) && parts.klass == object_klass && parts.klass_name.bytes == kObject.bytes &&
         __builtin_memcmp(parts.klass_name.at, kObject.at, kObject.bytes) == 0;
}

// Of a method that was known at this address: so there is something.
uint64_t HotspotMethods::content_of(uint64_t method) const {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15ull;
  const HotspotStructs& s = *structs_;
  const uint64_t constant = word_at(method, s.const_method), pool = word_at(constant, s.constants),
                 klass = word_at(pool, s.pool_holder), symbol = word_at(klass, s.klass_name);
  // Its hash, its length, two letters of it, and without the count of references; then the end: of a hidden class, its number.
  const uint64_t bytes = half_at(symbol, s.symbol_length), head = word_at(symbol, 0) >> 16;
  const uint64_t end = (at(symbol, s.symbol_body) + bytes) & ~7ull;
  const uint64_t tail = end - symbol > 8 ? word_at(end, -8) : 0;
  const uint64_t indexes = half_at(constant, s.name_index) << 16 | half_at(constant, s.signature_index);
  return (((((constant ^ indexes) * kMix ^ pool) * kMix ^ klass) * kMix ^ symbol) * kMix ^ head ^ tail) | 1;
}

HotspotMethods::Entry* HotspotMethods::make_table() {
  constexpr size_t kBytes = kEntries * sizeof(Entry);
  auto* table = static_cast<Entry*>(os::map_anonymous(kBytes));
  if (table && os::failed(os::advise(table, kBytes, MADV_WIPEONFORK))) os::unmap(table, kBytes), table = nullptr;
  if (table) table_.store(table, std::memory_order_release);
  return table;
}

// `content_of` is asked only of keys that were described.
template <class Content, class Describe>
HotspotMethods::Named HotspotMethods::find(uint64_t key, Content content_of, Describe describe) {
  const uint64_t from = (key >> 3) * 0x9E3779B97F4A7C15ull >> 47;
  if (const Entry* table = table_.load(std::memory_order_acquire); __builtin_expect(table != nullptr, 1)) {
    for (uint64_t probe = 0; probe < kMostProbes; probe++) {
      const Entry& entry = table[(from + probe) % kEntries];
      const uint64_t there = entry.key.load(std::memory_order_acquire);
      if (!there) break;
      if (there != key) continue;
      const uint64_t named = entry.named.load(std::memory_order_acquire);
      if (named && entry.content.load(std::memory_order_acquire) == content_of() &&
          entry.named.load(std::memory_order_acquire) == named)
        return unpacked(named);
      break;
    }
  }
  os::SignalsBlocked blocked;
  Locked locked(lock_);
  Entry* table = table_.load(std::memory_order_relaxed);
  if (!table && !(table = make_table())) return {};
  for (uint64_t probe = 0; probe < kMostProbes; probe++) {
    Entry& entry = table[(from + probe) % kEntries];
    const uint64_t there = entry.key.load(std::memory_order_relaxed);
    if (there && there != key) continue;
    const uint64_t before = entry.named.load(std::memory_order_relaxed);
    if (before && entry.content.load(std::memory_order_relaxed) == content_of()) return unpacked(before);
    bool mortal = false;
    if (!describe(numbers_ + 1, &mortal)) return {};
    const uint64_t named =
        ++numbers_ | static_cast<uint64_t>(mortal) << 31 | static_cast<uint64_t>(recorder->rules.new_id()) << 32;
    entry.named.store(0, std::memory_order_release);
    entry.content.store(content_of(), std::memory_order_release);
    entry.key.store(key, std::memory_order_release);
    entry.named.store(named, std::memory_order_release);
    return unpacked(named);
  }
  return {};
}

HotspotMethods::Named HotspotMethods::method(uint64_t method) {
  return find(
      method, [&] { return content_of(method); },
      [&](uint32_t number, bool* mortal) {
        Parts parts;
        if (!read(method, &parts)) return false;
        *mortal = is_mortal(parts.klass);
        const StackTable::Text text[] = {{parts.klass_name.at, parts.klass_name.bytes},
                                         {".", 1},
                                         {parts.name.at, parts.name.bytes},
                                         {parts.signature.at, parts.signature.bytes}};
        return recorder->stacks.add_method(number, text, 4);
      });
}

HotspotMethods::Named HotspotMethods::stub(const char* name) {
  return find(
      reinterpret_cast<uint64_t>(name), [] { return 1; },
      [&](uint32_t number, bool*) {
        uint64_t bytes = 0;  // "StubRoutines (initial stubs)": without what is in brackets
        while (name[bytes] && name[bytes] != ' ' && bytes < kLongestName) bytes++;
        const StackTable::Text text[] = {{"[", 1}, {name, bytes}, {"]", 1}};
        return recorder->stacks.add_method(number, text, 3);
      });
}

// 0: it is not.
uint64_t HotspotMethods::known(uint64_t key, uint64_t content) const {
  const Entry* table = table_.load(std::memory_order_acquire);
  const uint64_t from = (key >> 3) * 0x9E3779B97F4A7C15ull >> 47;
  for (uint64_t probe = 0; table && probe < kMostProbes; probe++) {
    const Entry& entry = table[(from + probe) % kEntries];
    const uint64_t there = entry.key.load(std::memory_order_acquire);
    if (!there) break;
    if (there != key) continue;
    const uint64_t named = entry.named.load(std::memory_order_acquire);
    const bool same = named && entry.content.load(std::memory_order_acquire) == content;
    return same && entry.named.load(std::memory_order_acquire) == named ? named : 0;
  }
  return 0;
}

// Where `key` is, or may be put. The lock is held. nullptr: nowhere.
HotspotMethods::Entry* HotspotMethods::room_for(uint64_t key) {
  Entry* table = table_.load(std::memory_order_relaxed);
  const uint64_t from = (key >> 3) * 0x9E3779B97F4A7C15ull >> 47;
  for (uint64_t probe = 0; table && probe < kMostProbes; probe++) {
    Entry& entry = table[(from + probe) % kEntries];
    const uint64_t there = entry.key.load(std::memory_order_relaxed);
    if (!there || there == key) return &entry;
  }
  return nullptr;
}

// `for_each_scope` calls its argument with each method and line, innermost first; false: what it read is no scope. A place that
// says no more than its method is that method.
template <class ForEach>
HotspotMethods::Named HotspotMethods::place(uint64_t key, uint64_t content, bool is_mortal, ForEach for_each_scope) {
  uint32_t scopes = 0;
  bool has_line = false, complete = true;
  Named outermost{};
  const bool read = for_each_scope([&](uint64_t each, uint32_t line) {
    outermost = method(each);
    if (!outermost.number) complete = false;
    has_line |= line != 0;
    scopes++;
  });
  if (!read || !complete || !scopes || scopes > kMostScopes) return {};
  os::SignalsBlocked blocked;
  Locked locked(lock_);
  if (const uint64_t before = known(key, content)) return unpacked(before);
  uint64_t named =
      outermost.number | static_cast<uint64_t>(outermost.is_mortal) << 31 | static_cast<uint64_t>(outermost.id) << 32;
  Entry* entry = room_for(key);
  if (!entry) return unpacked(named);
  if (scopes > 1 || has_line) {
    const uint32_t number = numbers_ + 1;
    format::PlaceEntry* to = recorder->stacks.place_for(scopes);
    if (!to) return unpacked(named);
    for_each_scope([&](uint64_t each, uint32_t line) {
      *to++ = {static_cast<uint32_t>(known(each, content_of(each)) & 0x3fffffff), line};
    });
    recorder->stacks.publish_place(number, scopes, to - scopes);
    numbers_ = number;
    named = number | 1u << 30 | static_cast<uint64_t>(is_mortal) << 31 | static_cast<uint64_t>(recorder->rules.new_id()) << 32;
  }
  entry->named.store(0, std::memory_order_release);
  entry->content.store(content, std::memory_order_release);
  entry->key.store(key, std::memory_order_release);
  entry->named.store(named, std::memory_order_release);
  return unpacked(named);
}

HotspotMethods::Named HotspotMethods::compiled(uint64_t blob, uint64_t pc, uint64_t sp) {
  const HotspotStructs& s = *structs_;
  const uint64_t own = word_at(blob, s.nmethod_method);
  if (!s.has_scopes || without_places_.load(std::memory_order_relaxed)) return method(own);
  // The JVM means to replace the frame and has put the address of a handler in the place of this one.
  uint64_t handler, other_handler = 0;
  if (s.nmethod_immutable >= 0) {
    handler = at(blob, static_cast<int32_t>(word_at(blob, s.nmethod_deopt_offset)));
    if (s.nmethod_deopt_mh_offset >= 0)
      other_handler = at(blob, static_cast<int32_t>(word_at(blob, s.nmethod_deopt_mh_offset)));
  } else {
    handler = word_at(blob, s.nmethod_deopt);
    if (s.nmethod_deopt_mh >= 0) other_handler = word_at(blob, s.nmethod_deopt_mh);
  }
  if (pc == handler || pc == other_handler) pc = word_at(sp, static_cast<int32_t>(word_at(blob, s.nmethod_original_pc)));
  const uint64_t content = code_identity(blob);
  if (const uint64_t named = known(pc, content); HEAPSPY_LIKELY(named != 0)) return unpacked(named);
  const Named made = place(pc, content, false, [&](auto each) {
    HotspotScopeWalk walk(s, blob, pc);
    HotspotScope scope{own, -1};
    if (!walk.found()) return each(own, 0u), true;  // native methods
    while (walk.next(&scope)) each(scope.method, hotspot_line(s, scope.method, scope.bci));
    return !walk.is_broken() && scope.method == own;
  });
  if (made.number) return made;
  if (!without_places_.exchange(true)) message::no_java_lines();
  return method(own);
}

HotspotMethods::Named HotspotMethods::interpreted(uint64_t method, uint64_t bcp) {
  const HotspotStructs& s = *structs_;
  const Named plain = this->method(method);
  if (!plain.number || s.method_flags < 0) return plain;
  const uint64_t constant = word_at(method, s.const_method), bci = bcp - at(constant, s.const_method_size);
  if (bci >= half_at(constant, s.method_code_bytes)) return plain;
  const uint64_t content = content_of(method);
  if (const uint64_t named = known(bcp, content); HEAPSPY_LIKELY(named != 0)) return unpacked(named);
  const Named made = place(bcp, content, plain.is_mortal, [&](auto each) {
    each(method, hotspot_line(s, method, static_cast<int32_t>(bci)));
    return true;
  });
  return made.number ? made : plain;
}

}  // namespace heapspy::unwind
