// `mpnanny export RUN… -o FOLDER`: runs as Parquet files. A command and no tool: it writes.
#include <memory>
#include <ostream>
#include <sstream>

#include "base/text.h"
#include "engines/export/export.h"
#include "server/command_line/commands.h"
#include "server/command_line/progress_line.h"

namespace mpnanny {
namespace {

struct ExportWords {
  exports::ExportOptions exports;
  std::string tables;  // with commas
  std::string format = "text";
};

Json ExportJson(const exports::ExportReport& report) {
  Json tables = Json::array();
  for (const exports::ExportedTable& table : report.tables) {
    tables.push_back({{"table", table.name}, {"rows", table.rows}, {"bytes", table.bytes}});
  }
  return {{"output", report.output}, {"runs", report.runs},     {"ranks", report.ranks},
          {"tables", tables},        {"duckdb", report.duckdb}, {"notes", report.notes}};
}

std::string CountedWord(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void PrintExport(const exports::ExportReport& report, std::ostream& out) {
  int64_t bytes = 0;
  for (const exports::ExportedTable& table : report.tables) bytes += table.bytes;
  out << report.output << ": " << CountedWord(report.runs.size(), "run") << ", "
      << CountedWord(static_cast<size_t>(report.ranks), "rank") << ", "
      << CountedWord(report.tables.size(), "table") << ", " << (bytes + 1023) / 1024 << " KB.\n";
  for (const exports::ExportedTable& table : report.tables) {
    out << "  " << table.name << ".parquet: " << CountedWord(static_cast<size_t>(table.rows), "row")
        << "\n";
  }
  for (const std::string& note : report.notes) out << "Note: " << note << "\n";
}

Result<void> RunExport(const CommandLineContext& context, ExportWords& options) {
  if (options.format != "text" && options.format != "json") {
    return InvalidInput("--format must be text or json, not '" + EscapeControl(options.format, 60) +
                        "'.");
  }
  std::istringstream tables(options.tables);
  for (std::string table; std::getline(tables, table, ',');) {
    if (!table.empty()) options.exports.tables.push_back(table);
  }
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  ProgressLine progress(context.err, context.progress, "mpnanny export");
  options.exports.progress = progress.Report();
  auto report = exports::Export(options.exports, roots, {});
  progress.Done();
  if (!report) return report.error();
  if (options.format == "json") {
    context.out << DumpJsonPretty(ExportJson(*report)) << "\n";
  } else {
    PrintExport(*report, context.out);
  }
  return {};
}

}  // namespace

void AddExportCommand(CommandSet& set) {
  const auto options = std::make_shared<ExportWords>();
  CLI::App& command = *set.parser.add_subcommand(
      "export",
      "Write runs as Parquet, for questions of your own\n\nOne file a table, with all ranks of all "
      "runs in it. Needs DuckDB's C library (docs/export.md).");
  command.group("Commands");
  command
      .add_option("RUN", options->exports.runs,
                  "Runs: database, database#id, log, or a folder for all below it")
      ->required()
      ->type_name("");
  command.add_option("-o,--output", options->exports.output, "The folder to make")
      ->required()
      ->type_name("DIR");
  command.add_option("--tables", options->tables, "Only these tables, with commas (default: all)")
      ->type_name("TABLES");
  command
      .add_option("--duckdb", options->exports.duckdb,
                  "DuckDB's C library, or its folder (default: MPNANNY_DUCKDB, else looked for)")
      ->type_name("FILE");
  command.add_flag("--force", options->exports.force, "Replace tables that the folder holds");
  command.add_option("--format", options->format, "How the answer is printed (default: text)")
      ->type_name("text|json");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<void> done = RunExport(context, *options);
    return done ? 0 : PrintError(context, "export", done.error(), options->format == "json");
  });
}

}  // namespace mpnanny
