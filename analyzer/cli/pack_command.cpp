// heapspy pack TRACE… [-o FILE]
#include <fmt/core.h>

#include <memory>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/trace/pack.h"

namespace heapspy::cli {
namespace {

struct PackOptions {
  std::vector<std::string> traces;
  std::string out;
};

ExitStatus pack(const PackOptions& options) {
  if (options.traces.size() > 1 && !options.out.empty())
    throw Failure(ExitStatus::wrong_usage, "--out names one file: give one trace with it");
  ExitStatus status = ExitStatus::done;
  for (const std::string& trace : options.traces) {
    try {
      const std::string& to = options.out.empty() ? trace : options.out;
      const trace::Packed packed = trace::pack_trace(trace, to);
      fmt::print("{}: {} to {}", report::printable(to), findings::bytes_text(packed.bytes_before),
                 findings::bytes_text(packed.bytes_after));
      if (packed.events)
        fmt::print(", {:.2f} bytes an event", static_cast<double>(packed.bytes_after) / static_cast<double>(packed.events));
      fmt::print("\n");
    } catch (const trace::NotPacked& why) {
      if (options.traces.size() == 1)
        throw Failure(why.why == trace::NotPacked::Why::running ? ExitStatus::target_refused : ExitStatus::unreadable,
                      why.what());
      say(why.what());
      status = ExitStatus::unreadable;
    }
  }
  return status;
}

}  // namespace

void add_pack_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<PackOptions>();
  CLI::App* command = app.add_subcommand("pack", "compresses finished traces; every command reads both forms");
  command->add_option("TRACE", options->traces, "rewritten in place, once all of it is there")->required();
  command->add_option("-o,--out", options->out, "write here and leave TRACE as it is");
  command->footer(example("heapspy pack heapspy.java.4242.*.hspy"));
  command->callback([options, &invocation] { invocation.status = pack(*options); });
}

}  // namespace heapspy::cli
