// `mpnanny run -- COMMAND …`: the command itself, in an environment that makes every Python in it
// watch the training it does. The code is on Python's side: monitor/python/mpnanny/_launch.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/companion.h"
#include "base/process_info.h"
#include "base/program.h"
#include "base/python.h"
#include "base/text.h"
#include "engines/team/address.h"
#include "server/command_line/commands.h"

namespace mpnanny {
namespace {

struct RunOptions {
  std::string db = kRecordedHere;
  std::string name;
  std::string precision = "auto";
  std::string record = "full";
  std::vector<std::string> layers;
  int64_t interval = 100;
  int64_t dense_steps = 50;
  int64_t warmup_steps = 100;
  int64_t max_db_mb = 2048;
  std::string dump;
  std::string shadow;
  bool quiet = false;
  bool arguments = false;
  std::string package;
  std::string ship;
  std::vector<std::string> command;
};

// What Python's side reads: the options of MixedPrecisionNanny under their names there.
constexpr char kOptionsVariable[] = "MPNANNY_RUN";
// The process that becomes the command. If that is a Python it leaves a record whatever it does;
// those that it starts do if they train.
constexpr char kProcessVariable[] = "MPNANNY_RUN_PROCESS";

using Variables = std::vector<std::pair<std::string, std::string>>;

// The shipper takes five seconds at most for the last rows, and says what it could not ship.
constexpr std::chrono::milliseconds kLastRowsLimit{7'000};

// This program, which Python asks for the verdict on a run that has ended.
constexpr char kProgramVariable[] = "MPNANNY_PROGRAM";

bool IsCount(std::string_view text) {
  return !text.empty() && text.size() < 19 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// When shadow steps are taken, as the monitor reads it (shadow/schedule.py).
bool IsWhen(std::string_view word) {
  if (word == "auto" || word == "off") return true;
  if (word.starts_with("every=")) {
    const std::string_view number = word.substr(6);
    return IsCount(number) && number.find_first_not_of('0') != std::string_view::npos;
  }
  if (!word.starts_with("steps=")) return false;
  const std::string_view range = word.substr(6);
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return false;
  const std::string first(range.substr(0, dash)), last(range.substr(dash + 1));
  return IsCount(first) && IsCount(last) && std::stoll(first) <= std::stoll(last);
}

// What is wrong with the words of --shadow, empty if nothing is: a training must not run for hours
// before somebody finds out that it was not watched.
std::string ShadowTrouble(const std::string& words) {
  std::istringstream stream(words);
  std::string when;
  for (std::string word; stream >> word;) {
    if (word == "eager" || word == "replay") continue;
    if (word.starts_with("layers=")) {
      if (word.find_first_not_of(',', 7) == std::string::npos) return "layers= names no layer";
    } else if (!IsWhen(word)) {
      return EscapeControl(word, 100) +
             " is not auto, off, every=N, steps=A-B, layers=GLOB,…, eager or replay";
    } else if (!when.empty()) {
      return "only one of auto, off, every=N and steps=A-B can be chosen, not " + when + " and " +
             word;
    } else {
      when = word;
    }
  }
  return words.find_first_not_of(" \t") == std::string::npos ? "no word was given" : "";
}

Json WatchOptions(const RunOptions& options) {
  Json watch = {{"db", options.db},
                {"trace_interval", options.interval},
                {"dense_steps", options.dense_steps},
                {"warmup_steps", options.warmup_steps},
                {"max_db_mb", options.max_db_mb},
                {"precision", options.precision},
                {"record", options.record},
                {"arguments", options.arguments},
                {"quiet", options.quiet}};
  if (!options.dump.empty()) watch["dump_on_error"] = options.dump;
  if (!options.shadow.empty()) watch["shadow"] = options.shadow;
  if (!options.name.empty()) watch["name"] = options.name;
  if (!options.layers.empty()) watch["layers"] = options.layers;
  return watch;
}

// `path` from the working directory of now: scripts change theirs.
Result<std::string> Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error || !IsUtf8(path)) {
    return InvalidInput(EscapeControl(path, 300) + ": " +
                        (error ? error.message() : "the path is not UTF-8") + ".");
  }
  return absolute.lexically_normal().generic_string();
}

// A training must not run for hours before somebody finds out that nothing was shipped.
std::string ShipTrouble(const std::string& url) {
  const auto address = team::ParseAddress(url);
  return address ? "" : address.error().Text();
}

// The command, and beside it a process that ships what it records. Whatever becomes of that one,
// the command's end is this process's.
int RunAndShip(const RunOptions& options, const Variables& variables,
               const CommandLineContext& context) {
  const std::vector<std::string> rest = {"ship", options.db, "--to", options.ship};
  std::vector<std::string> words = {ProgramPath()};
  words.insert(words.end(), rest.begin(), rest.end());
  words.insert(words.end(), {"--follow", "--new"});
  if (options.quiet) words.emplace_back("--quiet");
  auto shipper = Companion::Start(words);
  if (!shipper) PrintError(context, "ship", shipper.error(), false);
  context.err.flush();
  auto ended = RunInPlace(options.command, variables, kProcessVariable);
  if (!ended) return PrintError(context, "run", ended.error(), false);
  if (shipper && !shipper->End(kLastRowsLimit) && !options.quiet) {
    std::vector<std::string> again = {"mpnanny"};
    again.insert(again.end(), rest.begin(), rest.end());
    context.err << "mpnanny run: the last rows were not shipped in time; this ships the rest: "
                << ShellCommand(again) << "\n";
    context.err.flush();
  }
  return EndAs(*ended);
}

int Run(const RunOptions& options, const CommandLineContext& context) {
  if (options.command.empty()) {
    return PrintError(
        context, "run",
        InvalidInput("Which command? It follows two dashes.", "mpnanny run -- python train.py"),
        false);
  }
  const Result<std::filesystem::path> package = FindPythonPackage(options.package);
  if (!package) return PrintError(context, "run", package.error(), false);
  std::error_code missing;
  if (!std::filesystem::exists(*package / "mpnanny" / "_core.abi3.so", missing)) {
    return PrintError(
        context, "run",
        Unavailable("The package in " + EscapeControl(package->generic_string(), 300) +
                        " is without the part that watches, which is made for Linux with glibc.",
                    "Install the wheel for that (pip), or pass --package DIR, the folder of one."),
        false);
  }
  RunOptions watch = options;
  for (std::string* file : {&watch.db, &watch.dump}) {
    if (file->empty()) continue;
    Result<std::string> absolute = Absolute(*file);
    if (!absolute) return PrintError(context, "run", absolute.error(), false);
    *file = *std::move(absolute);
  }
  std::string path = (*package / "mpnanny" / "_launch").generic_string();
  const char* const before = std::getenv("PYTHONPATH");
  if (before != nullptr && *before != '\0') path += std::string(":") + before;
  context.out.flush();
  Variables variables = {{"PYTHONPATH", path},
                         {kOptionsVariable, DumpJson(WatchOptions(watch))},
                         {kProgramVariable, ProgramPath()}};
  if (!options.ship.empty()) return RunAndShip(watch, variables, context);
  variables.emplace_back(kProcessVariable, std::to_string(CurrentProcess()));
  const Error failed = ReplaceProgram(options.command, variables);
  return PrintError(context, "run", failed, false);
}

}  // namespace

void AddRunCommand(CommandSet& set) {
  CLI::App& command = *set.parser.add_subcommand(
      "run",
      "Run a training and watch it, without an edit of its code\n\n"
      "mpnanny run [OPTIONS] -- python train.py …\n"
      "The command runs as it is; its exit code, its output and its signals are its own. In every "
      "Python that it starts, the first model that runs while an optimizer holds its parameters is "
      "watched and recorded; under torchrun each rank writes a file of its own (metrics.rank0.db). "
      "A Python that trains nothing leaves a record that says so. One that ignores its environment "
      "(-E, -I, -S) is not watched.");
  const auto options = std::make_shared<RunOptions>();
  command.add_option("command", options->command, "What to run, after --")->type_name("COMMAND");
  command
      .add_option("--db", options->db,
                  std::string("The database, ") + kRecordedHere + " by default")
      ->type_name("FILE");
  command
      .add_option("--interval", options->interval,
                  "Full statistics every so many steps, 100 by default")
      ->type_name("STEPS")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--dense-steps", options->dense_steps,
                  "Full statistics at each of so many steps after an ERROR, 50 by default")
      ->type_name("STEPS")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--warmup-steps", options->warmup_steps,
                  "Steps before alerts that compare with the run's own history, 100 by default")
      ->type_name("STEPS")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--max-db-mb", options->max_db_mb,
                  "Size past which old samples are thinned, 2048 by default")
      ->type_name("MB")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--dump-on-error", options->dump,
                  "Folder for the tensors of what broke, as safetensors")
      ->type_name("DIR");
  command
      .add_option("--layers", options->layers,
                  "Watch only layers of this name or glob; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      .add_option("--shadow", options->shadow,
                  "Steps that run a second time in FP64: one of auto (the default), every=N, "
                  "steps=A-B and off. Beside it, in one quoted text: layers=GLOB,… for these "
                  "modules only, eager under torch.compile: \"every=100 layers=head eager\", "
                  "replay to run each operator again and compare its bits")
      ->type_name("WORDS")
      ->check(CLI::Validator(ShadowTrouble, ""));
  command
      .add_option("--precision", options->precision,
                  "The format that values are judged by, auto by default")
      ->check(CLI::IsMember({"auto", "fp16", "bf16", "fp32", "fp8"}));
  command.add_option("--record", options->record, "minimal: names are hashed, full by default")
      ->check(CLI::IsMember({"full", "minimal"}));
  command
      .add_option("--name", options->name,
                  "Name of the run, by default the script's with its folder: resnet/train")
      ->type_name("NAME");
  command.add_flag("--arguments", options->arguments,
                   "Record the script's arguments, which may hold secrets");
  command.add_flag("--quiet", options->quiet, "Say nothing on stderr");
  command
      .add_option("--ship", options->ship,
                  "Ship the run beside the training into a team's database, "
                  "postgresql://host/db, by a process of its own (docs/team.md)")
      ->type_name("URL")
      ->check(CLI::Validator(ShipTrouble, ""));
  command
      .add_option("--package", options->package,
                  "Folder that holds the Python package, if it is not beside this program")
      ->type_name("DIR");
  command.group("Commands");
  set.actions.emplace_back(&command, [&set, &context = set.context, options] {
    options->command.insert(options->command.end(), set.after_dashes.begin(),
                            set.after_dashes.end());
    return Run(*options, context);
  });
}

}  // namespace mpnanny
