// `mpnanny report RUN… -o FILE`: a page of a run to look at. A command and no tool: it writes.
#include <filesystem>
#include <memory>
#include <ostream>
#include <system_error>

#include "base/new_file.h"
#include "base/part_file.h"
#include "base/text.h"
#include "server/command_line/commands.h"
#include "tools/report/page.h"

namespace mpnanny {
namespace {

constexpr std::string_view kBegin = "<!doctype html>\n<html lang=\"en\">\n<head>\n";

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;
  std::string data_dir;
  bool force = false;
  report::PageOptions page;
};

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
  if (there && there->starts_with(kBegin) && there->find("<title>mpnanny</title>") < 2000) return {};
  return InvalidInput(EscapeControl(path, 300) + " exists and is no page of mpnanny.",
                      "Name another file, or give --force.");
}

Result<void> WriteWhole(const std::string& path, const std::string& text) {
  const PartFile part(path);
  {
    auto file = NewFile::Create(part.path());
    if (!file) return file.error();
    if (auto written = file->Append(text); !written) return written;
  }
  std::error_code error;
  std::filesystem::rename(part.path(), path, error);
  if (!error) return {};
  return InvalidInput("Cannot write " + EscapeControl(path, 300) + ".", "Name a file, no folder.");
}

Result<void> RunReport(const CommandLineContext& context, const ReportOptions& options) {
  if (options.page.language != "en" && options.page.language != "zh") {
    return InvalidInput("--language must be en or zh, not '" +
                        EscapeControl(options.page.language, 60) + "'.");
  }
  if (auto may = MayReplace(options.output, options.force); !may) return may;
  auto data = DataFiles::Create(options.data_dir);
  if (!data) return data.error();
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  auto page = report::MakePage(options.runs, options.page,
                               {.roots = roots, .data = *data, .cancel = {}, .progress = nullptr});
  if (!page) return page.error();
  if (auto written = WriteWhole(options.output, *page); !written) return written;
  context.out << options.output << ": " << page->size() / 1024
              << " KB, opens in any browser without a network.\n";
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
  command
      .add_option("RUN", options->runs, "One or two runs: database, database#id, or a folder")
      ->required()
      ->expected(1, 2)
      ->type_name("");
  command.add_option("-o,--output", options->output, "The file to make")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--language", options->page.language,
                  "What it opens in; the page can change it (default: en)")
      ->type_name("en|zh");
  command.add_flag("--force", options->force, "Replace FILE even if it is no page of mpnanny");
  command.add_option("--data-dir", options->data_dir, "Rules and cases of your own")
      ->type_name("DIR");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<void> done = RunReport(context, *options);
    return done ? 0 : PrintError(context, "report", done.error(), false);
  });
}

}  // namespace mpnanny
