#include "analyzer/trace/stack_table.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "analyzer/trace/java_name.h"
#include "analyzer/trace/packed_stacks.h"
#include "heapspy/format/java_place.h"

namespace heapspy::trace {

namespace {

using format::CellKind;
using format::StackCell;

constexpr std::uint64_t kAddressMask = (1ull << format::kCodeModuleShift) - 1;
constexpr std::uint32_t kNoCell = ~std::uint32_t{0};  // instead of a node: what is no cell
constexpr std::uint64_t kBrokenCut = 0;               // no format::Cut
constexpr std::uint32_t kPlace = 1u << 31;            // in method_of_number_: not a method's index, but a place's cell

bool is_address(CellKind kind) { return kind == CellKind::frame || kind == CellKind::interrupted; }
bool is_java(CellKind kind) { return kind == CellKind::java || kind == format::kJavaPlaceCell; }
bool is_frame(CellKind kind) { return is_address(kind) || is_java(kind); }
bool is_written(const StackCell& cell) { return cell.kind != CellKind::none || cell.code || cell.parent; }

// How many cells after this one belong to it.
std::uint64_t cells_described(const StackCell& cell) { return cell.code >> 32; }

}  // namespace

std::size_t StackTable::NodeHash::operator()(const Node& node) const {
  std::uint64_t hash = node.code * 0x9E3779B97F4A7C15ull;
  hash = (hash ^ hash >> 29 ^ (static_cast<std::uint64_t>(node.parent) << 32 | node.image)) * 0xBF58476D1CE4E5B9ull;
  return hash ^ hash >> 31 ^ static_cast<std::uint64_t>(node.kind);
}

StackTable::StackTable(const TraceFile& file, const std::vector<FoundChunk>& chunks, std::vector<Damage>& damage) {
  read_cells(file, chunks, damage);
  cell_nodes_.resize(cells_.size());
  nodes_.emplace_back();
  site_of_node_.push_back(SiteId::none);
  find_descriptions();
}

void StackTable::place(std::uint64_t first, const std::vector<StackCell>& cells) {
  std::size_t count = cells.size();
  while (count && !is_written(cells[count - 1])) count--;
  if (cells_.size() < first - 1 + count) cells_.resize(first - 1 + count);
  std::copy_n(cells.begin(), count, cells_.begin() + static_cast<std::ptrdiff_t>(first - 1));
}

// Segments are numbered on from each other, so no number is larger than there can be cells.
void StackTable::read_cells(const TraceFile& file, const std::vector<FoundChunk>& chunks, std::vector<Damage>& damage) {
  struct Packed {
    std::uint32_t first = 0;
    std::vector<StackCell> cells;
  };
  std::vector<Packed> packed;
  std::uint64_t most = 0;
  const auto note = [&](const FoundChunk& chunk) {
    damage.push_back({chunk.payload_at - sizeof(format::ChunkHeader), "a segment of call stacks is damaged"});
  };
  for (const FoundChunk& chunk : chunks) {
    if (chunk.kind == format::ChunkKind::stacks) most += chunk.payload_bytes / sizeof(StackCell);
    if (chunk.kind != format::ChunkKind::packed_stacks) continue;
    format::ChunkHeader stored;
    std::string payload(chunk.payload_bytes, '\0');
    payload.resize(file.read(chunk.payload_at, payload.data(), payload.size()));
    Packed& to = packed.emplace_back();
    if (chunk.cut || payload.size() % 8 || !read_chunk_header(file, chunk.payload_at, stored) ||
        format::checksum(payload.data(), payload.size()) != stored.payload_checksum ||
        !unpack_cells(payload, to.first, to.cells))
      note(chunk);
    most += to.cells.size();
  }
  for (const Packed& each : packed)
    if (each.first > 0 && each.first <= most) place(each.first, each.cells);
  for (const FoundChunk& chunk : chunks) {
    if (chunk.kind != format::ChunkKind::stacks) continue;
    format::StacksHeader segment{};
    const std::uint64_t room =
        chunk.payload_bytes > sizeof segment ? (chunk.payload_bytes - sizeof segment) / sizeof(StackCell) : 0;
    const bool read = file.read(chunk.payload_at, &segment, sizeof segment) == sizeof segment;
    const bool known = read && segment.first > 0 && segment.first <= most && segment.cells <= most;
    if (!known || (segment.cells > room && !chunk.cut)) note(chunk);
    if (!known) continue;
    std::vector<StackCell> cells(std::min<std::uint64_t>(segment.cells, room));
    cells.resize(file.read(chunk.payload_at + sizeof segment, cells.data(), cells.size() * sizeof(StackCell)) /
                 sizeof(StackCell));
    place(segment.first, cells);
  }
  cells_.shrink_to_fit();
}

std::string_view StackTable::payload_of(std::size_t cell) const {
  const std::uint64_t follow = cells_described(cells_[cell]);
  if (follow > cells_.size() - cell - 1) return {};
  return {reinterpret_cast<const char*>(cells_.data() + cell + 1), follow * sizeof(StackCell)};
}

void StackTable::describe_module(std::uint32_t number, std::string_view payload) {
  format::ModuleRecord record;
  std::memcpy(&record, payload.data(), sizeof record);
  if (record.build_id_bytes > sizeof record.build_id || record.path_bytes > payload.size() - sizeof record) return;
  Image image{std::string(payload.substr(sizeof record, record.path_bytes)),
              {reinterpret_cast<const char*>(record.build_id), record.build_id_bytes}};
  const auto known = std::find(images_.begin(), images_.end(), image);
  modules_[number] = {static_cast<std::uint32_t>(known - images_.begin()), record.bias};
  if (known == images_.end()) images_.push_back(std::move(image));
}

void StackTable::describe_method(std::uint32_t number, std::string_view payload) {
  format::MethodRecord record;
  std::memcpy(&record, payload.data(), sizeof record);
  if (record.name_bytes > payload.size() - sizeof record) return;
  std::string name = java_name(payload.substr(sizeof record, record.name_bytes));
  const auto [known, is_new] = method_of_name_.try_emplace(name, static_cast<std::uint32_t>(methods_.size()));
  if (is_new) methods_.push_back(std::move(name));
  method_of_number_[number] = known->second;
}

void StackTable::find_descriptions() {
  for (std::size_t i = 0; i < cells_.size(); i++) {
    const bool module = cells_[i].kind == CellKind::module, place = cells_[i].kind == format::kPlaceCell;
    if (!module && !place && cells_[i].kind != CellKind::method) continue;
    const std::string_view payload = payload_of(i);
    const std::uint64_t least = module  ? sizeof(format::ModuleRecord)
                                : place ? sizeof(format::PlaceEntry) * std::max<std::uint64_t>(cells_[i].parent, 1)
                                        : sizeof(format::MethodRecord);
    if (payload.size() < least) continue;
    const auto number = static_cast<std::uint32_t>(cells_[i].code);
    if (place)
      method_of_number_[number] = kPlace | static_cast<std::uint32_t>(i);
    else
      module ? describe_module(number, payload) : describe_method(number, payload);
    const std::size_t last = i + cells_described(cells_[i]);
    while (i < last) cell_nodes_[++i] = kNoCell;  // a row of bytes
  }
}

std::uint32_t StackTable::intern(const Node& node) {
  const auto [found, is_new] = node_ids_.try_emplace(node, static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) {
    nodes_.push_back(node);
    site_of_node_.push_back(SiteId::none);
  }
  return found->second;
}

// From the innermost cell outwards to one that is known, and back.
std::uint32_t StackTable::node_of(std::uint32_t cell) {
  path_.clear();
  std::uint32_t parent = 0;
  bool broken = false;
  while (cell) {
    const std::uint32_t known = cell_nodes_[cell - 1];
    if (known && known != kNoCell) {
      parent = known;
      break;
    }
    const StackCell& at = cells_[cell - 1];
    if (known == kNoCell || (!is_frame(at.kind) && at.kind != CellKind::cut)) {
      broken = true;
      break;
    }
    path_.push_back(cell);
    if (at.kind == CellKind::cut) break;
    if (at.parent >= cell) {  // a parent is written before its child
      broken = true;
      break;
    }
    cell = at.parent;
  }
  const auto method_frame = [&](std::uint32_t number, std::uint32_t line, std::uint32_t caller) {
    const auto method = method_of_number_.find(number);
    if (method == method_of_number_.end() || method->second & kPlace) return intern({kBrokenCut, kNoImage, 0, CellKind::cut});
    std::uint32_t index = method->second;
    if (line) {  // a method at a line is a method of its own
      std::string name = methods_[index] + ":" + std::to_string(line);
      const auto [known, is_new] = method_of_name_.try_emplace(name, static_cast<std::uint32_t>(methods_.size()));
      if (is_new) methods_.push_back(std::move(name));
      index = known->second;
    }
    return intern({index, kNoImage, caller, CellKind::java});
  };
  const auto java = [&](const StackCell& frame, std::uint32_t caller) {
    const auto number = static_cast<std::uint32_t>(frame.code);
    if (frame.kind == CellKind::java) return method_frame(number, 0, caller);
    const auto place = method_of_number_.find(number);
    if (place == method_of_number_.end() || !(place->second & kPlace)) return intern({kBrokenCut, kNoImage, 0, CellKind::cut});
    const std::size_t described = place->second & ~kPlace;
    const std::string_view entries = payload_of(described);
    for (std::size_t i = cells_[described].parent; i-- > 0;) {  // outermost first
      format::PlaceEntry entry;
      std::memcpy(&entry, entries.data() + i * sizeof entry, sizeof entry);
      caller = method_frame(entry.method, entry.line, caller);
    }
    return caller;
  };
  if (broken) parent = intern({kBrokenCut, kNoImage, 0, CellKind::cut});
  while (!path_.empty()) {
    const StackCell& at = cells_[path_.back() - 1];
    Node node{at.code, kNoImage, parent, at.kind};
    if (is_address(at.kind)) {
      node.code = at.code & kAddressMask;
      const auto module = modules_.find(static_cast<std::uint32_t>(at.code >> format::kCodeModuleShift));
      if (module != modules_.end() && at.code >> format::kCodeModuleShift) {
        node.image = module->second.image;
        node.code -= module->second.bias;
      }
    }
    parent = is_java(at.kind) ? java(at, parent) : intern(node);
    cell_nodes_[path_.back() - 1] = parent;
    path_.pop_back();
  }
  return parent;
}

SiteId StackTable::site(std::uint64_t cell) {
  if (cell == 0 || cell > cells_.size() || !is_frame(cells_[cell - 1].kind)) return SiteId::none;
  std::uint32_t node = cell_nodes_[cell - 1];
  if (node == kNoCell) return SiteId::none;
  if (!node) node = node_of(static_cast<std::uint32_t>(cell));
  SiteId& site = site_of_node_[node];
  if (site == SiteId::none) {
    node_of_site_.push_back(node);
    site = SiteId{sites()};
  }
  return site;
}

Stack StackTable::stack(SiteId site) const {
  Stack stack;
  if (site == SiteId::none || index(site) > sites()) return stack;
  for (std::uint32_t at = node_of_site_[index(site) - 1]; at; at = nodes_[at].parent) {
    const Node& node = nodes_[at];
    if (node.kind == CellKind::cut) {
      switch (static_cast<format::Cut>(node.code)) {
        case format::Cut::depth: stack.end = StackEnd::depth; break;
        case format::Cut::no_rule: stack.end = StackEnd::no_rule; break;
        case format::Cut::bad_stack: stack.end = StackEnd::bad_stack; break;
        default: stack.end = StackEnd::unknown;
      }
      break;
    }
    if (node.kind == CellKind::java)
      stack.frames.push_back({0, kNoImage, false, static_cast<std::uint32_t>(node.code)});
    else
      stack.frames.push_back({node.code, node.image, node.kind == CellKind::interrupted, kNoMethod});
  }
  return stack;
}

}  // namespace heapspy::trace
