// The call stacks of a trace: the cells of all its `stacks` chunks (format/layout.h), and one SiteId for each stack that is
// named by an event, whatever cells spell it.
//
// Two stacks are equal if each frame is the same place of the same file: path and build-id, and the address in the ELF file. So
// a plugin that was unloaded and loaded again somewhere else gives the same sites.
//
// Trusts nothing: a cell that was never written, a parent that is not below its child or a module nobody described end the
// stack there (StackEnd::unknown), or leave the frame without a module. Memory: the cells as they are in the file (16 bytes
// each), and some 40 bytes for each distinct frame of the stacks that are named. For one thread at a time.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/event.h"
#include "analyzer/trace/trace_file.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

// A library or program: one file, however often it was loaded.
struct Image {
  std::string path;      // empty: the program itself
  std::string build_id;  // raw bytes; empty: it has none, or none that is known
  bool operator==(const Image&) const = default;
};

inline constexpr std::uint32_t kNoImage = 0xffffffff;
inline constexpr std::uint32_t kNoMethod = 0xffffffff;

struct StackFrame {
  std::uint64_t address = 0;         // in the ELF file of `image`; without image: in the process
  std::uint32_t image = kNoImage;    // index into StackTable::images()
  bool interrupted = false;          // the very instruction at which a signal came; else a return address
  std::uint32_t method = kNoMethod;  // Java: index into StackTable::methods(); then there is no address
  bool operator==(const StackFrame&) const = default;
};

// Why there are no frames further out.
enum class StackEnd : std::uint8_t { whole, depth, no_rule, bad_stack, unknown };

struct Stack {
  std::vector<StackFrame> frames;  // innermost first
  StackEnd end = StackEnd::whole;
};

class StackTable {
 public:
  StackTable() = default;  // of a trace without stacks
  // Adds to `damage`.
  StackTable(const TraceFile&, const std::vector<FoundChunk>&, std::vector<Damage>& damage);

  // The site of the stack whose innermost frame is this cell; none where no frame is known.
  SiteId site(std::uint64_t cell);
  std::uint32_t sites() const { return static_cast<std::uint32_t>(node_of_site_.size()); }  // ids are 1 … sites()
  Stack stack(SiteId) const;                                                                // empty for ids that are none
  const std::vector<Image>& images() const { return images_; }
  const std::vector<std::string>& methods() const { return methods_; }        // as people write them (java_name.h)
  const std::vector<format::StackCell>& raw_cells() const { return cells_; }  // [0] is number 1
  std::uint64_t checksum() const { return format::checksum(cells_.data(), cells_.size() * sizeof cells_[0]); }

 private:
  struct Module {
    std::uint32_t image = kNoImage;
    std::uint64_t bias = 0;
  };
  // A frame below all frames further out, each told once.
  struct Node {
    std::uint64_t code = 0;  // frames: the address; java: index into methods_; cut: why
    std::uint32_t image = kNoImage;
    std::uint32_t parent = 0;  // index into nodes_; 0: none
    format::CellKind kind = format::CellKind::none;
    bool operator==(const Node&) const = default;
  };
  struct NodeHash {
    std::size_t operator()(const Node& node) const;
  };

  void place(std::uint64_t first, const std::vector<format::StackCell>&);
  void read_cells(const TraceFile&, const std::vector<FoundChunk>&, std::vector<Damage>& damage);
  void find_descriptions();
  // The bytes that a cell of kind module or method is followed by. Empty: no such row.
  std::string_view payload_of(std::size_t cell) const;
  void describe_module(std::uint32_t number, std::string_view payload);
  void describe_method(std::uint32_t number, std::string_view payload);
  std::uint32_t intern(const Node&);
  std::uint32_t node_of(std::uint32_t cell);

  std::vector<format::StackCell> cells_;               // [0] is cell 1
  std::vector<std::uint32_t> cell_nodes_;              // as cells_: index into nodes_, 0 not looked at
  std::unordered_map<std::uint32_t, Module> modules_;  // by number
  std::vector<Image> images_;
  std::unordered_map<std::uint32_t, std::uint32_t> method_of_number_;  // index into methods_
  std::unordered_map<std::string, std::uint32_t> method_of_name_;
  std::vector<std::string> methods_;
  std::vector<Node> nodes_;
  std::unordered_map<Node, std::uint32_t, NodeHash> node_ids_;
  std::vector<SiteId> site_of_node_;  // as nodes_
  std::vector<std::uint32_t> node_of_site_;
  std::vector<std::uint32_t> path_;  // of node_of()
};

}  // namespace heapspy::trace
