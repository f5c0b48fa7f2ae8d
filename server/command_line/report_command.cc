// `mpnanny report RUN… -o FILE` makes a page of a run to look at, `mpnanny view RUN…` serves it.
// Commands and no tools: one writes, the other listens.
#include <filesystem>
#include <memory>
#include <ostream>
#include <system_error>

#include "base/replace_file.h"
#include "base/text.h"
#include "server/command_line/commands.h"
#include "server/command_line/progress_line.h"
#include "server/view.h"
#include "tools/report/page.h"

namespace mpnanny {
namespace {

constexpr std::string_view kBegin = "<!doctype html>\n<html lang=\"en\">\n<head>\n";

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;
  std::string data_dir;
  std::string language = "en";
  bool force = false;
};

void AddRuns(CLI::App& command, std::vector<std::string>& runs) {
  command
      .add_option("RUN", runs,
                  std::string("One or two runs: database, database#id, or a folder (default: ") +
                      kRecordedHere + ")")
      ->expected(1, 2)
      ->type_name("");
}

void AddPageOptions(CLI::App& command, std::string& language, std::string& data_dir) {
  command
      .add_option("--language", language, "What it opens in; the page can change it (default: en)")
      ->check(CLI::IsMember({"en", "zh"}))
      ->type_name("en|zh");
  command.add_option("--data-dir", data_dir, "Rules and cases of your own")->type_name("DIR");
}

// A page that was made before is replaced; anything else only if that is asked for, and a database
// never: it may be the run's own.
Result<void> MayReplace(const std::string& path, bool force) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const Result<std::string> there = ReadFile(path, 64 << 20);
  if (there && there->starts_with("SQLite format 3")) {
    return InvalidInput(EscapeControl(path, 300) + " is a database.", "Name another file.");
  }
  if (force) return {};
  if (there && there->starts_with(kBegin) && there->find("<title>mpnanny</title>") < 2000)
    return {};
  return InvalidInput(EscapeControl(path, 300) + " exists and is no page of mpnanny.",
                      "Name another file, or give --force.");
}

// What FILE's name asks for: a page, its data, or the picture of the diagnosis (of two runs: of
// their comparison).
Result<std::string> Made(const ReportOptions& options, const ToolContext& context) {
  const std::string& file = options.output;
  if (file == "-" || file.ends_with(".json")) {
    MPN_TRY_ASSIGN(auto data,
                   report::PageData(options.runs, {.language = options.language}, context));
    return DumpJson(data) + "\n";
  }
  if (file.ends_with(".png")) return report::MakePicture(options.runs, context);
  return report::MakePage(options.runs, {.language = options.language}, context);
}

Result<void> RunReport(const CommandLineContext& context, const ReportOptions& options) {
  const bool prints = options.output == "-";
  if (auto may = MayReplace(options.output, options.force); !prints && !may) return may;
  MPN_TRY_ASSIGN(auto data, DataFiles::Create(options.data_dir));
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  ProgressLine progress(context.err, context.progress, "mpnanny report");
  auto made =
      Made(options, {.roots = roots, .data = data, .cancel = {}, .progress = progress.Report()});
  progress.Done();
  if (!made) return made.error();
  if (prints) {
    context.out << *made;
    return {};
  }
  if (auto written = ReplaceFile(options.output, *made); !written) return written;
  context.out << options.output << ": " << made->size() / 1024 << " KB"
              << (made->starts_with(kBegin) ? ", opens in any browser without a network.\n" : "\n");
  return {};
}

}  // namespace

void AddReportCommand(CommandSet& set) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "report",
      "Make a page of a run to look at\n\nOne HTML file that needs no network: what went wrong, "
      "curves, layers against steps, magnitudes against the formats' ends, alerts. Two runs are "
      "laid over each other.");
  command.group("Commands");
  AddRuns(command, options->runs);
  command
      .add_option("-o,--output", options->output,
                  "The file to make. A name that ends in .png gets a picture, one in .json (or -, "
                  "standard output) the data of the page")
      ->required()
      ->type_name("FILE");
  AddPageOptions(command, options->language, options->data_dir);
  command.add_flag("--force", options->force, "Replace FILE even if it is no page of mpnanny");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    if (options->runs.empty()) options->runs = {kRecordedHere};
    const Result<void> done = RunReport(context, *options);
    return done ? 0 : PrintError(context, "report", done.error(), false);
  });
}

void AddViewCommand(CommandSet& set) {
  const auto options = std::make_shared<ViewOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "view",
      "Show the page of a run in a browser, and follow the run\n\nPrints an address on this "
      "machine that only you know; Ctrl+C ends it.");
  command.group("Commands");
  AddRuns(command, options->runs);
  command.add_option("--port", options->port, "Port to listen on (default: a free one)")
      ->check(CLI::Range(0, 65535))
      ->type_name("PORT");
  AddPageOptions(command, options->language, options->data_dir);
  set.actions.emplace_back(&command, [&context = set.context, options] {
    if (options->runs.empty()) options->runs = {kRecordedHere};
    const Result<void> ended = View(*options, context.out);
    return ended ? 0 : PrintError(context, "view", ended.error(), false);
  });
}

}  // namespace mpnanny
