// `mpnanny capture MODEL -o FILE`: what each module of a model that has left Python gives. A
// command and no tool: it writes.
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/data_files.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engines/exported/model_file.h"
#include "engines/exported/worker.h"
#include "server/command_line/command_words.h"
#include "server/command_line/commands.h"
#include "server/command_line/progress_line.h"

namespace mpnanny {
namespace {

struct CaptureOptions {
  std::string model, output;
  std::vector<std::string> input;
  int64_t seed = 0;
  int repeats = 0;
  int seconds = 60;
  bool force = false;
  bool allow_weaker_sandbox = false;
};

Result<void> RunCapture(const CommandLineContext& context, const CaptureOptions& options) {
  if (options.output.empty() == (options.repeats == 0)) {
    return InvalidInput("Give -o FILE, or --time N.");
  }
  std::error_code error;
  if (!options.output.empty() && !options.force && std::filesystem::exists(options.output, error)) {
    return InvalidInput(EscapeControl(options.output, 300) + " exists.",
                        "Give --force to replace it.");
  }
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  Json arguments = {{"model", options.model},
                    {"input", options.input},
                    {"seed", options.seed},
                    {"timeout_s", options.seconds}};
  if (options.repeats > 0) arguments["repeats"] = options.repeats;
  MPN_TRY_ASSIGN(auto question, exported::ReadQuestion(options.repeats > 0 ? "time" : "capture",
                                                       arguments, roots));
  MPN_TRY_ASSIGN(const auto folder, TemporaryFolder::Create());
  const std::string made = folder.path() + "/capture.safetensors";
  question.request["output"] = made;
  MPN_TRY_ASSIGN(const auto data, DataFiles::Create());
  ProgressLine progress(context.err, context.progress, "mpnanny capture");
  ToolContext tool{roots, data, {}, true};
  tool.allow_weaker_sandbox = options.allow_weaker_sandbox;
  tool.progress = progress.Report();
  const Json number = {{"type", "number"}};
  Json schema = {{"type", "object"}};
  if (options.repeats == 0) {
    schema["properties"] = {{"tensors", number}, {"bytes", number}};
    schema["required"] = {"tensors", "bytes"};
  }
  auto answer = exported::AskWorker(question, folder.path(), schema, tool);
  progress.Done();
  if (!answer) return answer.error();
  if (options.repeats > 0) {
    context.out << DumpJsonPretty(*answer) << "\n";
    return {};
  }
  std::filesystem::copy_file(made, options.output,
                             std::filesystem::copy_options::overwrite_existing, error);
  if (error)
    return Unavailable("Cannot write " + EscapeControl(options.output, 300) + ": " +
                       error.message() + ".");
  context.out << options.output << ": " << ValueAt(*answer, {"tensors"}) << " tensors, "
              << ValueAt(*answer, {"bytes"}) << " bytes.\n";
  return {};
}

// The arguments that errors of the worker name and that are options here.
ToolDefinition Named() {
  ToolDefinition named;
  named.input_schema["properties"] = {{"input", {{"type", "string"}}},
                                      {"seed", {{"type", "integer"}}},
                                      {"timeout_s", {{"type", "integer"}}}};
  return named;
}

}  // namespace

void AddCaptureCommand(CommandSet& set) {
  const auto options = std::make_shared<CaptureOptions>();
  CLI::App& command =
      *set.parser.add_subcommand("capture",
                                 "Write what each module of an exported model gives\n\nThe file is "
                                 "one of mpnanny.diff.capture in Python: `mpnanny diff "
                                 "--captures A --captures B` compares two of them.");
  command.group("Commands");
  command.add_option("MODEL", options->model, "A file of torch.export (.pt2) or TorchScript (.pt)")
      ->required()
      ->type_name("");
  command
      .add_option("--input", options->input,
                  "One for each argument: float32[8,3]~normal(0,1), x.pt")
      ->type_name("WORD");
  command.add_option("--seed", options->seed, "Of the inputs")->type_name("N");
  command.add_option("-o,--output", options->output, "The file to make")->type_name("FILE");
  command
      .add_option("--time", options->repeats,
                  "Instead: time N runs, the library's own and operator by operator")
      ->type_name("N");
  command.add_option("--timeout-s", options->seconds, "Seconds that it may run (default: 60)")
      ->type_name("S")
      ->check(CLI::Range(1, 1800));
  command.add_flag("--force", options->force, "Replace FILE if it exists");
  AddWeakerSandboxOption(command, options->allow_weaker_sandbox);
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<void> done = RunCapture(context, *options);
    if (done) return 0;
    return PrintError(context, "capture", WithOptionNames(done.error(), Named()), false);
  });
}

}  // namespace mpnanny
