#include "analyzer/report/inspection_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/inspection_java.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

using findings::bytes_text;
using findings::count_text;
using findings::percent_text;

constexpr std::size_t kArenasShown = 20;

void append(Lines& to, const Lines& more) { to.insert(to.end(), more.begin(), more.end()); }

std::string title(const Inspection& inspection) {
  const std::string command = inspection.process.command.empty() ? "?" : command_text(inspection.process.command);
  return fmt::format("{}   {}pid {}", fit(command, 76), inspection.core ? "core of " : "", inspection.process.pid);
}

std::string allocator_text(const Inspection& inspection) {
  const ProcessReport& process = inspection.process;
  std::string text = process.allocator_name == "unknown" ? "allocator not recognised" : process.allocator_name;
  if (process.allocator_version) text += " " + *process.allocator_version;
  if (inspection.heap) {
    const heap::TakenApart& apart = *inspection.heap;
    text += fmt::format(" · {} in {}", findings::plural_text(apart.copy.arenas.size(), "arena", "arenas"),
                        findings::plural_text(apart.copy.regions.size(), "heap", "heaps"));
  }
  if (inspection.pause_s)
    text += fmt::format(" · stood still for {}, {} copied", findings::seconds_text(*inspection.pause_s),
                        bytes_text(inspection.copied_bytes));
  return text;
}

Bytes free_bytes(const Inspection& inspection) {
  const Bytes trimmable = inspection.sum(&InspectedArena::trimmable_bytes),
              pinned = inspection.sum(&InspectedArena::pinned_bytes), cached = inspection.sum(&InspectedArena::cached_bytes);
  return trimmable && pinned && cached ? Bytes(*trimmable + *pinned + *cached) : std::nullopt;
}

std::string conclusion(const Inspection& inspection) {
  if (inspection.arenas.empty()) return "malloc holds nothing: it was not called yet.";
  const Bytes resident = inspection.sum(&InspectedArena::resident_bytes), free = free_bytes(inspection);
  if (inspection.core) {
    const Bytes system = inspection.sum(&InspectedArena::system_bytes), in_use = inspection.sum(&InspectedArena::in_use_bytes);
    return fmt::format(
        "malloc held {}, {} of it in use. A core does not say what was resident: malloc_trim(0) would have given "
        "back at most {}.",
        bytes_or_unknown(system), bytes_or_unknown(in_use), bytes_or_unknown(inspection.trim_at_most_bytes));
  }
  if (!free)
    return fmt::format("malloc holds {} of {} RSS; how much of it is free is not known (see the checks).",
                       bytes_or_unknown(resident), bytes_or_unknown(inspection.rss.total_bytes));
  return fmt::format("malloc holds {} of {} RSS, and {} of that is free: malloc_trim(0) would give back {} now.",
                     bytes_or_unknown(resident), bytes_or_unknown(inspection.rss.total_bytes), bytes_text(*free),
                     bytes_or_unknown(inspection.trim_prediction_bytes));
}

// What the allocator itself counts.
std::string counts_text(const Inspection& inspection) {
  if (inspection.core) return "its own counts are not read from a core";
  const auto& counts = inspection.other_counts;
  if (!counts) return "its own counts are not known, for only code of its own adds them up";
  return fmt::format("it has taken {} of address space{}", bytes_text(counts->taken_bytes),
                     counts->thread_caches
                         ? " and keeps " + findings::plural_text(*counts->thread_caches, "thread cache", "thread caches")
                         : "");
}

Lines without_heap(const Inspection& inspection) {
  const std::string& name = inspection.process.allocator_name;
  const std::string rss = inspection.core ? "" : fmt::format("RSS {}. ", bytes_or_unknown(inspection.rss.total_bytes));
  std::string text;
  if (name != "unknown")
    text = fmt::format("{}{} answers malloc in it, and its heaps are not read; {}. What the kernel knows:", rss, name,
                       counts_text(inspection));
  else
    text = fmt::format(
        "{}No heap of glibc's malloc was found: it was not called yet, or another allocator answers. What the kernel knows:",
        rss);
  Lines lines = wrap(text, kWidth);
  lines.emplace_back();
  Table table({"Mappings", "count", "size", inspection.core ? "" : "resident"});
  for (const process::KindTotal& kind : inspection.kinds)
    table.add({"  " + std::string(process::name(kind.kind)), count_text(kind.count), bytes_text(kind.size_bytes),
               inspection.core ? "" : bytes_text(kind.rss_bytes)});
  append(lines, table.lines(kWidth));
  return lines;
}

Lines part_lines(const Inspection& inspection, const Screen& screen) {
  const Bytes resident = inspection.sum(&InspectedArena::resident_bytes);
  Table table({"Malloc's memory", "resident", "", ""});
  table.align_left(3);
  table.give_way(3);
  const auto row = [&](const char* what, const Bytes& bytes, const char* why) {
    table.add({what, bytes_or_unknown(bytes), bytes && resident ? percent_text(*bytes, *resident) : "", why});
  };
  row("  in use", inspection.sum(&InspectedArena::in_use_resident_bytes),
      "blocks with headers and rounding, malloc's own tables");
  row("  free, trimmable", inspection.sum(&InspectedArena::trimmable_bytes), "whole free pages that malloc_trim(0) returns");
  row("  free, pinned", inspection.sum(&InspectedArena::pinned_bytes), "on pages that also hold a block in use");
  row("  free, cached", inspection.sum(&InspectedArena::cached_bytes), "thread caches, tops of secondary arenas");
  if (const Bytes tops = inspection.sum(&InspectedArena::secondary_top_bytes); tops && *tops)
    row("    secondary tops", tops, "no trim returns them; MALLOC_TRIM_THRESHOLD_=131072 before start");
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

std::string plug_text(const InspectedArena& arena) {
  if (!arena.plug) return "";
  const bool block = arena.plug->kind == heap::ChunkKind::in_use;
  return bytes_text(arena.plug->bytes) + (block ? "" : arena.plug->kind == heap::ChunkKind::cached ? " cached" : " table");
}

Lines arena_lines(const Inspection& inspection, const Screen& screen) {
  std::vector<const InspectedArena*> arenas;
  for (const InspectedArena& arena : inspection.arenas) arenas.push_back(&arena);
  std::stable_sort(arenas.begin(), arenas.end(), [](const InspectedArena* a, const InspectedArena* b) {
    if ((a->kind == "main") != (b->kind == "main")) return a->kind == "main";
    return a->resident_bytes.value_or(a->system_bytes.value_or(0)) > b->resident_bytes.value_or(b->system_bytes.value_or(0));
  });
  const std::size_t shown = std::min(arenas.size(), kArenasShown);
  Table table({"", "system", "resident", "in use", "trimmable", "pinned", "cached", "plug"});
  table.align_left(7);
  table.give_way(7);
  for (std::size_t i = 0; i < shown; i++) {
    const InspectedArena& arena = *arenas[i];
    table.add({"  " + arena_label(arena), bytes_or_unknown(arena.system_bytes), bytes_or_unknown(arena.resident_bytes),
               bytes_or_unknown(arena.in_use_bytes),
               bytes_or_unknown(inspection.core ? arena.trimmable_at_most_bytes : arena.trimmable_bytes),
               bytes_or_unknown(arena.pinned_bytes), bytes_or_unknown(arena.cached_bytes),
               arena.proven ? plug_text(arena) : "not proven"});
  }
  Lines lines = {heading(
      shown == arenas.size() ? fmt::format("Arenas ({})", shown) : fmt::format("Arenas ({} of {})", shown, arenas.size()),
      screen)};
  append(lines, table.lines(kWidth));
  if (inspection.core) lines.emplace_back("  trimmable: at most, were all of it resident");
  return lines;
}

Lines chunk_kind_lines(const Inspection& inspection, const Screen& screen) {
  const heap::TakenApart& apart = *inspection.heap;
  heap::ChunkSums sums;
  for (const heap::Chunk& chunk : apart.walk.chunks) sums.add(chunk);
  Table table({"Chunks", "count", "bytes"});
  for (std::size_t k = 0; k < heap::kChunkKinds; k++)
    if (sums.count[k])
      table.add({fmt::format("  {}", heap::kChunkKindNames[k]), count_text(sums.count[k]), bytes_text(sums.bytes[k])});
  if (apart.account.mapped.blocks)
    table.add({"  mapped blocks", count_text(apart.account.mapped.blocks), bytes_text(apart.account.mapped.bytes)});
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

Lines rss_lines(const Inspection& inspection, const Screen& screen) {
  if (!inspection.rss.total_bytes) return {};
  Table table({"RSS", bytes_text(*inspection.rss.total_bytes), ""});
  for (const PartReport& part : inspection.rss.parts)
    if (part.bytes)
      table.add({"  " + part.name, bytes_text(part.bytes), percent_text(part.bytes, *inspection.rss.total_bytes)});
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  for (const std::string& note : inspection.rss.notes)
    for (const std::string& line : wrap("Note: " + printable(note), kWidth - 2)) lines.push_back("  " + line);
  return lines;
}

// What malloc goes by, where it is not what it started with.
Lines threshold_lines(const Inspection& inspection) {
  if (!inspection.heap->copy.parameters) return {};
  const heap::Parameters& p = *inspection.heap->copy.parameters;
  std::string text =
      fmt::format("mmap threshold {}, trim threshold {}", bytes_text(p.mmap_threshold), bytes_text(p.trim_threshold));
  if (p.arena_max) text += fmt::format(", at most {}", findings::plural_text(p.arena_max, "arena", "arenas"));
  return {text};
}

Lines next_lines(const Inspection& inspection) {
  const std::string target = inspection.core ? printable(inspection.path) : std::to_string(inspection.process.pid);
  std::string text = "Next: ";
  if (!inspection.core) text += fmt::format("heapspy trim {} · ", target);
  text += fmt::format("heapspy inspect {} --bins", target);
  const auto largest = std::max_element(
      inspection.arenas.begin(), inspection.arenas.end(),
      [](const InspectedArena& a, const InspectedArena& b) { return a.pinned_bytes.value_or(0) < b.pinned_bytes.value_or(0); });
  if (largest != inspection.arenas.end() && largest->plug)
    text += fmt::format(" · heapspy inspect {} --heap {:#x}", target, largest->plug->address);
  return wrap(text, kWidth);
}

Lines check_lines(const Inspection& inspection, const Screen& screen) {
  const std::vector<heap::Check>& checks = inspection.heap->checks;
  const bool all = inspection.heap->proven();
  Lines lines = {
      heading(all ? fmt::format("Checks: all {} hold, {} chunks in {}", checks.size(),
                                count_text(inspection.heap->walk.chunks.size()), findings::seconds_text(inspection.walk_s))
                  : "Checks: not all hold; figures of the arenas that they are about are left out or to be doubted",
              screen)};
  for (const heap::Check& check : checks)
    for (const std::string& line :
         wrap(fmt::format("{}  {}: {}", check.ok ? "ok    " : "FAILED", check.name, printable(check.detail)), kWidth - 2))
      lines.push_back("  " + line);
  return lines;
}

}  // namespace

Lines inspection_lines(const Inspection& inspection, const Screen& screen) {
  Lines lines;
  if (!inspection.heap) {
    lines = {title(inspection), allocator_text(inspection)};
    append(lines, without_heap(inspection));
  } else {
    const std::string jvm = beyond_text(inspection);
    if (!jvm.empty()) lines = wrap(jvm, kWidth);
    append(lines, wrap(conclusion(inspection), kWidth));
    for (std::string& line : lines) line = heading(line, screen);
    lines.push_back(title(inspection));
    append(lines, wrap(allocator_text(inspection), kWidth));
    append(lines, threshold_lines(inspection));
    if (!inspection.core && !inspection.arenas.empty()) {
      lines.emplace_back();
      append(lines, part_lines(inspection, screen));
    }
    if (!inspection.arenas.empty()) {
      lines.emplace_back();
      append(lines, arena_lines(inspection, screen));
      lines.emplace_back();
      append(lines, chunk_kind_lines(inspection, screen));
    }
    if (const Lines pins = pin_lines(inspection, screen); !pins.empty()) {
      lines.emplace_back();
      append(lines, pins);
    }
  }
  if (const Lines rss = rss_lines(inspection, screen); !rss.empty()) {
    lines.emplace_back();
    append(lines, rss);
  }
  if (const Lines jvm = jvm_lines(inspection, screen); !jvm.empty()) {
    lines.emplace_back();
    append(lines, jvm);
  }
  if (inspection.heap) {
    lines.emplace_back();
    append(lines, check_lines(inspection, screen));
  }
  for (const std::string& note : inspection.notes) append(lines, wrap("Note: " + printable(note), kWidth));
  if (!inspection.arenas.empty()) {
    lines.emplace_back();
    append(lines, next_lines(inspection));
  }
  return lines;
}

}  // namespace heapspy::report
