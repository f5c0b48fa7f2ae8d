// `mpnanny pack RUN -o FILE`: one file of a run to carry away. A command and no tool: it writes.
#include <cmath>
#include <memory>
#include <ostream>

#include "base/text.h"
#include "engines/pack/pack.h"
#include "server/command_line/commands.h"
#include "server/command_line/progress_line.h"

namespace mpnanny {
namespace {

struct CommandOptions {
  pack::PackOptions pack;
  double max_mb = 100;
  std::string format = "text";
};

Json ReportJson(const pack::PackReport& report) {
  return {{"run", report.run},
          {"output", report.output},
          {"bytes", report.bytes},
          {"ranks", report.ranks},
          {"steps", report.steps},
          {"alerts", report.alerts},
          {"sample_rows", report.sample_rows},
          {"rows_left_out", report.rows_left_out},
          {"one_in", report.one_in},
          {"notes", report.notes}};
}

void PrintReport(const pack::PackReport& report, bool redacted, std::ostream& out) {
  out << report.output << ": " << report.bytes / 1024 << " KB, " << report.steps << " steps, "
      << report.alerts << " alerts, " << report.sample_rows << " rows of statistics";
  if (report.ranks > 1) out << ", " << report.ranks << " ranks";
  out << ".\n";
  if (report.rows_left_out > 0) {
    out << report.rows_left_out << " rows were thinned out: one in " << report.one_in
        << " samples, every tensor's extremes and all within 200 steps of an alert stayed.\n";
  }
  if (redacted) {
    out << "Names are hashed as record=\"minimal\" does: hidden from reading, not from guessing.\n";
  }
  for (const std::string& note : report.notes) out << "Note: " << note << "\n";
}

Result<void> RunPack(const CommandLineContext& context, CommandOptions& options) {
  if (options.format != "text" && options.format != "json") {
    return InvalidInput("--format must be text or json, not '" + EscapeControl(options.format, 60) +
                        "'.");
  }
  if (!(options.max_mb >= 0 && options.max_mb <= 1e9)) {
    return InvalidInput("--max-mb must be a number of MB, 0 for no limit.");
  }
  options.pack.max_bytes = static_cast<int64_t>(std::llround(options.max_mb * (1 << 20)));
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  ProgressLine progress(context.err, context.progress, "mpnanny pack");
  auto report = pack::Pack(options.pack, roots, {});
  progress.Done();
  if (!report) return report.error();
  if (options.format == "json") {
    context.out << DumpJsonPretty(ReportJson(*report)) << "\n";
  } else {
    PrintReport(*report, options.pack.redact, context.out);
  }
  return {};
}

}  // namespace

void AddPackCommand(CommandSet& set) {
  const auto options = std::make_shared<CommandOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "pack",
      "Make one file of a run to carry away\n\nAll ranks and their flight recorders, without WAL, "
      "thinned to a size. Every command that takes a run takes the file.");
  command.group("Commands");
  command
      .add_option("RUN", options->pack.run, "The run: database, database#id, or a folder's newest")
      ->required()
      ->type_name("");
  command.add_option("-o,--output", options->pack.output, "The file to make")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--max-mb", options->max_mb,
                  "Samples are thinned to this size; 0 keeps all (default: 100)")
      ->type_name("MB");
  command.add_flag("--redact", options->pack.redact,
                   "Hash the names of layers and classes; leave out paths, host and messages");
  command.add_flag("--force", options->pack.force, "Replace FILE if it exists");
  command.add_option("--format", options->format, "How the answer is printed (default: text)")
      ->type_name("text|json");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<void> done = RunPack(context, *options);
    return done ? 0 : PrintError(context, "pack", done.error(), options->format == "json");
  });
}

}  // namespace mpnanny
