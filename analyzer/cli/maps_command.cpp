// heapspy maps PID [--json]
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/cli/command.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/process/memory_map.h"
#include "analyzer/report/printable.h"

namespace heapspy::cli {
namespace {

using findings::bytes_text;
using findings::count_text;
using process::LiveProcess;
using process::MemoryMap;

struct MapsOptions {
  pid_t pid = 0;
  bool json = false;
};

void print_json(pid_t pid, const MemoryMap& map) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (const process::KindTotal& each : map.kinds)
    kinds.push_back({{"kind", process::name(each.kind)},
                     {"count", each.count},
                     {"size_bytes", each.size_bytes},
                     {"rss_bytes", each.rss_bytes},
                     {"swap_bytes", each.swap_bytes},
                     {"executable", each.executable}});
  nlohmann::ordered_json page_tables;  // null: not known
  if (map.page_table_bytes) page_tables = *map.page_table_bytes;
  const nlohmann::ordered_json root = {{"schema", "heapspy.maps/1"},
                                       {"pid", pid},
                                       {"kinds", kinds},
                                       {"regions_64mib", map.regions_64mib},
                                       {"regions_64mib_proven", map.regions_proven},
                                       {"page_table_bytes", page_tables},
                                       {"mappings", map.mappings},
                                       {"executable_mappings", map.executable_mappings},
                                       {"size_bytes", map.size_bytes},
                                       {"rss_bytes", map.rss_bytes},
                                       {"scan_s", map.scan_s}};
  fmt::print("{}\n", root.dump(2));
}

std::string title(const LiveProcess& target) {
  const std::vector<std::string> command = target.command();
  return report::fit(command.empty() ? report::printable(target.status().name) : report::command_text(command), 80);
}

void print_text(const LiveProcess& target, const MemoryMap& map) {
  fmt::print("{}   pid {}\n", title(target), target.pid());
  fmt::print("RSS {} in {} mappings, {} of them executable; most of it: {} ({})\n", bytes_text(map.rss_bytes),
             count_text(map.mappings), count_text(map.executable_mappings), process::name(map.kinds[0].kind),
             bytes_text(map.kinds[0].rss_bytes));
  const bool swapped = map.swap_bytes != 0;
  fmt::print("\n{:<24}{:>10}{:>13}{:>13}{}\n", "kind", "mappings", "size", "resident", swapped ? "      swapped" : "");
  const auto row = [&](std::string_view name, std::uint64_t count, std::uint64_t size, std::uint64_t rss, std::uint64_t swap) {
    fmt::print("{:<24}{:>10}{:>13}{:>13}{}\n", name, count_text(count), bytes_text(size), bytes_text(rss),
               swapped ? fmt::format("{:>13}", bytes_text(swap)) : "");
  };
  for (const process::KindTotal& each : map.kinds)
    row(process::name(each.kind), each.count, each.size_bytes, each.rss_bytes, each.swap_bytes);
  row("total", map.mappings, map.size_bytes, map.rss_bytes, map.swap_bytes);

  fmt::print("\n64 MiB regions of arenas  {}{}\n", count_text(map.regions_64mib),
             map.regions_proven ? "" : " by their shape (the process's memory may not be read)");
  fmt::print("page tables               {} (not part of RSS)\n",
             map.page_table_bytes ? bytes_text(*map.page_table_bytes) : std::string("?"));
  fmt::print("scan                      {}{}\n", findings::seconds_text(map.scan_s),
             map.mappings
                 ? fmt::format(", {} a mapping", findings::seconds_text(map.scan_s / static_cast<double>(map.mappings)))
                 : "");
}

}  // namespace

void add_maps_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<MapsOptions>();
  CLI::App* command = app.add_subcommand("maps", "every mapping of a live process, by kind");
  command->add_option("PID", options->pid, "the process")->required()->check(process_id());
  command->add_flag("--json", options->json, "print schema heapspy.maps/1");
  command->footer(example("heapspy maps 4242"));
  command->callback([options, &invocation] {
    const LiveProcess target(options->pid);
    const MemoryMap map = process::scan_memory_map(target);
    if (options->json)
      print_json(options->pid, map);
    else
      print_text(target, map);
    invocation.status = ExitStatus::done;
  });
}

}  // namespace heapspy::cli
