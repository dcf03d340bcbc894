#include "eh_frame_rules.h"

#include "dwarf_bytes.h"

namespace heapspy::unwind {
namespace {

constexpr uint64_t kRbp = 6, kRsp = 7, kReturnAddress = 16;

struct CommonEntry {
  uint64_t code_factor;
  int64_t data_factor;
  uint8_t encoding = 0;  // of addresses
  bool augmented = false;
  bool signal_frame = false;
  Bytes instructions;
};

bool read_common(const UnwindData& data, const uint8_t* at, CommonEntry* common) {
  const auto place = reinterpret_cast<uint64_t>(at);
  if (place < data.from || place + 16 > data.to) return false;
  Bytes bytes{at, reinterpret_cast<const uint8_t*>(data.to)};
  const auto length = bytes.take<uint32_t>();
  if (length > data.to - place - 4 || bytes.take<uint32_t>() != 0) return false;
  bytes.end = at + 4 + length;
  const auto version = bytes.take<uint8_t>();
  if (version != 1 && version != 3) return false;
  const uint8_t* augmentation = bytes.at;
  while (bytes.more() && *bytes.at) bytes.at++;
  bytes.skip(1);
  common->code_factor = bytes.unsigned_leb();
  common->data_factor = bytes.signed_leb();
  if (version == 1)
    bytes.skip(1);
  else
    bytes.unsigned_leb();
  if (bytes.bad) return false;  // the augmentation may not end
  common->augmented = *augmentation == 'z';
  if (!common->augmented && *augmentation) return false;
  if (common->augmented) {
    const uint64_t size = bytes.unsigned_leb();
    const uint8_t* after = bytes.at + size;
    if (size > static_cast<uint64_t>(bytes.end - bytes.at)) return false;
    for (augmentation++; *augmentation; augmentation++) {
      if (*augmentation == 'R') {
        common->encoding = bytes.take<uint8_t>();
      } else if (*augmentation == 'P') {
        const auto encoding = bytes.take<uint8_t>();
        bytes.encoded(encoding);
      } else if (*augmentation == 'L') {
        bytes.skip(1);
      } else if (*augmentation == 'S') {
        common->signal_frame = true;
      } else {
        break;  // the rest is skipped by its size
      }
    }
    bytes.at = after;
  }
  common->instructions = bytes;
  return !bytes.bad;
}

// What the instructions have said so far, of what matters here.
struct Row {
  enum Where : uint8_t { same, at_cfa, undefined, at_expression, elsewhere };
  uint64_t cfa_register = kRsp;
  int64_t cfa_offset = 8;
  const uint8_t* cfa_expression = nullptr;
  uint32_t cfa_expression_bytes = 0;
  int32_t bp_offset = 0;
  int32_t return_offset = -8;
  Where bp = same;
  Where return_address = at_cfa;
  bool offset_too_large = false;
};

class Interpreter {
 public:
  Interpreter(const CommonEntry& common, uint64_t location, uint64_t pc) : common_(common), location_(location), pc_(pc) {}

  Row row, initial;

  // False: an instruction that is not known.
  bool run(Bytes bytes) {
    while (bytes.more()) {
      const auto op = bytes.take<uint8_t>();
      const uint64_t low = op & 0x3f;
      switch (op >> 6) {
        case 1:
          if (advance(low)) return true;
          continue;
        case 2: set(low, Row::at_cfa, scaled(bytes.unsigned_leb())); continue;
        case 3: restore(low); continue;
        default: break;
      }
      bool passed = false;
      if (!extended(op, bytes, &passed)) return false;
      if (passed) return true;
    }
    return !bytes.bad;
  }

 private:
  // DW_CFA_remember_state nests once or twice in what compilers write.
  static constexpr unsigned kMostRemembered = 4;

  bool advance(uint64_t by) {
    location_ += by * common_.code_factor;
    return location_ > pc_;
  }
  int64_t scaled(uint64_t offset) const { return static_cast<int64_t>(offset * static_cast<uint64_t>(common_.data_factor)); }
  void set(uint64_t reg, Row::Where where, int64_t offset) {
    if (reg != kRbp && reg != kReturnAddress) return;
    if (offset != static_cast<int32_t>(offset)) row.offset_too_large = true;
    (reg == kRbp ? row.bp : row.return_address) = where;
    (reg == kRbp ? row.bp_offset : row.return_offset) = static_cast<int32_t>(offset);
  }
  void restore(uint64_t reg) {
    if (reg == kRbp) row.bp = initial.bp, row.bp_offset = initial.bp_offset;
    if (reg == kReturnAddress) row.return_address = initial.return_address, row.return_offset = initial.return_offset;
  }
  void set_cfa(uint64_t reg, int64_t offset) {
    row.cfa_register = reg;
    row.cfa_offset = offset;
    row.cfa_expression = nullptr;
  }

  bool extended(uint8_t op, Bytes& bytes, bool* passed) {
    switch (op) {
      case 0x00: return true;  // nop
      case 0x01: *passed = (location_ = bytes.encoded(common_.encoding)) > pc_; return true;
      case 0x02: *passed = advance(bytes.take<uint8_t>()); return true;
      case 0x03: *passed = advance(bytes.take<uint16_t>()); return true;
      case 0x04: *passed = advance(bytes.take<uint32_t>()); return true;
      case 0x05: {  // offset_extended
        const uint64_t reg = bytes.unsigned_leb();
        set(reg, Row::at_cfa, scaled(bytes.unsigned_leb()));
        return true;
      }
      case 0x06: restore(bytes.unsigned_leb()); return true;
      case 0x07: set(bytes.unsigned_leb(), Row::undefined, 0); return true;
      case 0x08: set(bytes.unsigned_leb(), Row::same, 0); return true;
      case 0x09: {  // register
        const uint64_t reg = bytes.unsigned_leb();
        bytes.unsigned_leb();
        set(reg, Row::elsewhere, 0);
        return true;
      }
      case 0x0a:
        if (remembered_ == kMostRemembered) return false;
        stack_[remembered_++] = row;
        return true;
      case 0x0b:
        if (remembered_ == 0) return false;
        row = stack_[--remembered_];
        return true;
      case 0x0c: {  // def_cfa
        const uint64_t reg = bytes.unsigned_leb();
        set_cfa(reg, static_cast<int64_t>(bytes.unsigned_leb()));
        return true;
      }
      case 0x0d: set_cfa(bytes.unsigned_leb(), row.cfa_offset); return true;
      case 0x0e: row.cfa_offset = static_cast<int64_t>(bytes.unsigned_leb()); return true;
      case 0x0f: {  // def_cfa_expression
        const uint64_t size = bytes.unsigned_leb();
        row.cfa_expression = bytes.at;
        row.cfa_expression_bytes = static_cast<uint32_t>(size);
        bytes.skip(size);
        return true;
      }
      case 0x10: {  // expression: saved at an address
        const uint64_t reg = bytes.unsigned_leb(), size = bytes.unsigned_leb();
        Bytes expression{bytes.at, bytes.at + size};
        bytes.skip(size);
        constexpr uint8_t kBreg6 = 0x76;
        if (!bytes.bad && expression.take<uint8_t>() == kBreg6) {
          const int64_t offset = expression.signed_leb();
          if (expression.at == expression.end) return set(reg, Row::at_expression, offset), true;
        }
        set(reg, Row::elsewhere, 0);
        return true;
      }
      case 0x11: {  // offset_extended_sf
        const uint64_t reg = bytes.unsigned_leb();
        set(reg, Row::at_cfa, scaled(static_cast<uint64_t>(bytes.signed_leb())));
        return true;
      }
      case 0x12: {  // def_cfa_sf
        const uint64_t reg = bytes.unsigned_leb();
        set_cfa(reg, scaled(static_cast<uint64_t>(bytes.signed_leb())));
        return true;
      }
      case 0x13: row.cfa_offset = scaled(static_cast<uint64_t>(bytes.signed_leb())); return true;
      case 0x14:
      case 0x15: {  // val_offset
        const uint64_t reg = bytes.unsigned_leb();
        bytes.unsigned_leb();
        set(reg, Row::elsewhere, 0);
        return true;
      }
      case 0x16: {  // val_expression
        const uint64_t reg = bytes.unsigned_leb();
        bytes.skip(bytes.unsigned_leb());
        set(reg, Row::elsewhere, 0);
        return true;
      }
      case 0x2e: bytes.unsigned_leb(); return true;  // GNU_args_size
      default: return false;
    }
  }

  const CommonEntry& common_;
  uint64_t location_;
  const uint64_t pc_;
  unsigned remembered_ = 0;
  Row stack_[kMostRemembered];
};

// A CFA that an expression gives: register + offset, the word there + added, or what comes to that at this `pc` (the entries of
// a PLT have one expression for all their instructions).
bool cfa_of_expression(Bytes bytes, uint64_t pc, Rule* rule) {
  struct Value {
    enum { constant, address, loaded } kind;
    uint64_t reg;
    int64_t offset;  // constant: the value
    int64_t added;   // loaded
  };
  Value stack[6];
  unsigned depth = 0;
  const auto push = [&](Value value) { return depth < 6 ? (stack[depth++] = value, true) : false; };
  const auto sum = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  };
  const auto constant = [&](int64_t value) { return push({Value::constant, 0, value, 0}); };
  while (bytes.more()) {
    const auto op = bytes.take<uint8_t>();
    bool good = true;
    if (op >= 0x30 && op <= 0x4f) {  // lit0 … lit31
      good = constant(op - 0x30);
    } else if (op >= 0x70 && op <= 0x8f) {  // breg0 … breg31
      const int64_t offset = bytes.signed_leb();
      good = op == 0x70 + kReturnAddress ? constant(sum(static_cast<int64_t>(pc), offset))
                                         : push({Value::address, op - 0x70u, offset, 0});
    } else if (op == 0x08 || op == 0x09) {  // const1u, const1s
      const auto byte = bytes.take<uint8_t>();
      good = constant(op == 0x08 ? byte : static_cast<int8_t>(byte));
    } else if (op == 0x06) {  // deref
      good = depth && stack[depth - 1].kind == Value::address;
      if (good) stack[depth - 1].kind = Value::loaded;
    } else if (op == 0x23) {  // plus_uconst
      const auto more = static_cast<int64_t>(bytes.unsigned_leb());
      good = depth > 0;
      if (good) {
        int64_t& to = stack[depth - 1].kind == Value::loaded ? stack[depth - 1].added : stack[depth - 1].offset;
        to = sum(to, more);
      }
    } else if (op == 0x1a || op == 0x1c || op == 0x22 || op == 0x24 || op == 0x2a) {  // and, minus, plus, shl, ge
      if (depth < 2 || stack[depth - 1].kind != Value::constant) return false;
      const int64_t right = stack[--depth].offset;
      Value& left = stack[depth - 1];
      if (op == 0x22 || op == 0x1c) {
        int64_t& to = left.kind == Value::loaded ? left.added : left.offset;
        to = op == 0x22 ? sum(to, right) : static_cast<int64_t>(static_cast<uint64_t>(to) - static_cast<uint64_t>(right));
      } else {
        if (left.kind != Value::constant || right > 63 || (op == 0x24 && right < 0)) return false;
        left.offset = op == 0x1a   ? (left.offset & right)
                      : op == 0x24 ? static_cast<int64_t>(static_cast<uint64_t>(left.offset) << right)
                                   : left.offset >= right;
      }
    } else {
      return false;
    }
    if (!good) return false;
  }
  if (bytes.bad || depth != 1) return false;
  const Value& cfa = stack[0];
  if (cfa.kind == Value::constant || (cfa.reg != kRsp && cfa.reg != kRbp)) return false;
  if (cfa.added < 0 || cfa.added > 255 || cfa.offset != static_cast<int32_t>(cfa.offset)) return false;
  const bool loaded = cfa.kind == Value::loaded;
  rule->kind = cfa.reg == kRsp ? (loaded ? RuleKind::at_sp : RuleKind::sp) : (loaded ? RuleKind::at_bp : RuleKind::bp);
  rule->offset = static_cast<int32_t>(cfa.offset);
  rule->added = static_cast<uint8_t>(cfa.added);
  return true;
}

Rule rule_of(const Row& row, uint64_t pc) {
  const Rule none{};
  if (row.offset_too_large) return none;
  if (row.return_address == Row::undefined) return {RuleKind::end, BpRule::same, 0, 0, 0, 0};
  if (row.return_address != Row::at_cfa || row.return_offset != -8) return none;
  Rule rule;
  if (row.cfa_expression) {
    if (!cfa_of_expression({row.cfa_expression, row.cfa_expression + row.cfa_expression_bytes}, pc, &rule)) return none;
  } else {
    if (row.cfa_register >= 16 || row.cfa_offset != static_cast<int32_t>(row.cfa_offset)) return none;
    rule.kind = row.cfa_register == kRsp ? RuleKind::sp : row.cfa_register == kRbp ? RuleKind::bp : RuleKind::other;
    rule.reg = static_cast<uint8_t>(row.cfa_register);
    rule.offset = static_cast<int32_t>(row.cfa_offset);
  }
  switch (row.bp) {
    case Row::same: rule.bp = BpRule::same; break;
    case Row::at_cfa: rule.bp = BpRule::at_cfa; break;
    case Row::at_expression: rule.bp = BpRule::at_bp; break;
    default: rule.bp = BpRule::lost; break;
  }
  rule.bp_offset = row.bp_offset;
  return rule.fits() ? rule : none;
}

}  // namespace

Rule rule_of_entry(const UnwindData& data, const uint8_t* entry, uint64_t pc) {
  const Rule none{};
  const auto place = reinterpret_cast<uint64_t>(entry);
  if (place < data.from || place + 16 > data.to) return none;
  Bytes bytes{entry, reinterpret_cast<const uint8_t*>(data.to)};
  const auto length = bytes.take<uint32_t>();
  if (length < 8 || length > data.to - place - 4) return none;  // 0xffffffff: 64-bit entries, which nobody writes here
  bytes.end = entry + 4 + length;
  const auto back = bytes.take<int32_t>();
  CommonEntry common{};
  if (!back || !read_common(data, entry + 4 - back, &common)) return none;
  const uint64_t start = bytes.encoded(common.encoding);
  const uint64_t size = bytes.encoded(common.encoding & 15);
  if (bytes.bad) return none;
  if (pc < start || pc - start >= size) return {RuleKind::by_frame, BpRule::same, 0, 0, 0, 0};
  if (common.augmented) bytes.skip(bytes.unsigned_leb());
  if (common.signal_frame) return {RuleKind::signal, BpRule::same, 0, 0, 0, 0};
  Interpreter interpreter(common, start, pc);
  Bytes first = common.instructions;
  if (!interpreter.run(first)) return none;
  interpreter.initial = interpreter.row;
  if (!interpreter.run(bytes)) return none;
  return rule_of(interpreter.row, pc);
}

Rule eh_frame_rule(const UnwindData& data, uint64_t pc) {
  const Rule unknown{RuleKind::by_frame, BpRule::same, 0, 0, 0, 0};
  const auto place = reinterpret_cast<uint64_t>(data.header);
  if (place < data.from || place + 12 > data.to) return unknown;
  Bytes bytes{data.header, reinterpret_cast<const uint8_t*>(data.to)};
  if (bytes.take<uint8_t>() != 1) return unknown;
  const auto frame_encoding = bytes.take<uint8_t>(), count_encoding = bytes.take<uint8_t>();
  constexpr uint8_t kDataRelative4 = 0x3b;  // what every linker writes: pairs of 32-bit differences to the header, sorted
  if (bytes.take<uint8_t>() != kDataRelative4) return unknown;
  bytes.encoded(frame_encoding);
  const uint64_t count = bytes.encoded(count_encoding);
  if (bytes.bad || !count || count > static_cast<uint64_t>(bytes.end - bytes.at) / 8) return unknown;
  const uint8_t* table = bytes.at;
  const auto number = [&](uint64_t index) {
    int32_t value;
    __builtin_memcpy(&value, table + 4 * index, sizeof value);
    return place + static_cast<uint64_t>(static_cast<int64_t>(value));
  };
  if (pc < number(0)) return unknown;
  uint64_t low = 0, high = count;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (number(2 * middle) <= pc ? low : high) = middle;
  }
  return rule_of_entry(data, reinterpret_cast<const uint8_t*>(number(2 * low + 1)), pc);
}

}  // namespace heapspy::unwind
