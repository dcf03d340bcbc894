// heapspy inspect PID|CORE [--json] [--bins] [--chunks] [--heap ADDRESS] [--no-jcmd]
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "analyzer/cli/command.h"
#include "analyzer/report/inspection.h"
#include "analyzer/report/inspection_java.h"
#include "analyzer/report/inspection_json.h"
#include "analyzer/report/inspection_text.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/screen.h"

namespace heapspy::cli {
namespace {

struct InspectOptions {
  std::string target, heap;
  bool json = false, join_trace = true, ask_jvm = true;
  report::InspectionDetail detail;
};

template <typename Number>
bool is_number(std::string_view text, Number& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

report::Inspection inspect(const InspectOptions& options) {
  pid_t pid = 0;
  if (!is_number(options.target, pid, 10) || pid <= 0) return report::inspect_core(process::CoreFile(options.target));
  const process::LiveProcess process(pid);
  report::Inspection inspection = report::inspect_process(process, options.join_trace);
  if (options.ask_jvm) report::ask_jvm(inspection, process);
  return inspection;
}

void print_text(const report::Inspection& inspection, const InspectOptions& options) {
  const report::Screen screen = report::screen_of_stdout();
  const auto print = [](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) fmt::print("{}\n", line);
  };
  if (inspection.heap && options.detail.chunks) {
    report::print_chunks(*inspection.heap, options.detail, stdout);
    return;
  }
  if (inspection.heap && options.detail.heap) {
    const std::vector<std::string> map = report::heap_map_lines(*inspection.heap, *options.detail.heap, screen);
    if (map.empty())
      throw Failure(
          ExitStatus::wrong_usage,
          fmt::format("no heap holds the address {}; heapspy inspect {} --json lists the heaps", options.heap, options.target));
    print(map);
    return;
  }
  print(report::inspection_lines(inspection, screen));
  if (inspection.heap && options.detail.bins) {
    fmt::print("\n");
    print(report::bin_lines(*inspection.heap, screen));
  }
}

}  // namespace

void add_inspect_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "the glibc heap of any process or core file, chunk by chunk");
  command->add_option("PID|CORE", options->target, "a process id, or a core file")->required();
  command->add_flag("--json", options->json, "print schema heapspy.inspect/1");
  command->add_flag("--bins", options->detail.bins, "also bins, free chunks by size, and the largest");
  command->add_flag("--chunks", options->detail.chunks, "every chunk instead");
  command->add_option("--heap", options->heap, "a map of the heap that holds this address; of --chunks, those in it")
      ->option_text("ADDRESS");
  command->add_flag("--no-trace{false}", options->join_trace, "of a recorded process: without the call stacks of its trace");
  command->add_flag("--no-jcmd{false}", options->ask_jvm,
                    "of a JVM with -XX:NativeMemoryTracking: do not ask it for its own figures");
  command->footer(example("heapspy inspect 4242"));
  command->callback([options, &invocation] {
    if (!options->heap.empty()) {
      std::string_view digits = options->heap;
      if (digits.starts_with("0x")) digits.remove_prefix(2);
      std::uint64_t address = 0;
      if (!is_number(digits, address, 16))
        throw Failure(ExitStatus::wrong_usage,
                      fmt::format("--heap {}: an address in hexadecimal is wanted, like 0x7f0a14000000", options->heap));
      options->detail.heap = address;
    }
    const report::Inspection inspection = inspect(*options);
    if (options->json)
      fmt::print("{}", report::dump_json(report::inspection_json(inspection, options->detail)));
    else
      print_text(inspection, *options);
    invocation.status = ExitStatus::done;
  });
}

}  // namespace heapspy::cli
