// The commands behind RunCommandLine(). Each Add…() puts one command into the parser and returns
// nothing; what it does when it is chosen joins `actions`.
//
// Used by one thread. A CommandSet outlives the parser's parse() and the action that runs after it.
#ifndef MPNANNY_SERVER_COMMAND_LINE_COMMANDS_H_
#define MPNANNY_SERVER_COMMAND_LINE_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/command_line/command_line.h"

namespace mpnanny {

inline constexpr int kExitError = 2;

// Where the monitor records, seen from the folder in which a training runs.
inline constexpr char kRecordedHere[] = "nanny_logs/metrics.db";
inline constexpr char kHowToRecord[] =
    "Name a run or a log; `mpnanny run -- python train.py` records one here.";

struct CommandSet {
  CLI::App& parser;
  const CommandLineContext& context;
  std::vector<Tool> tools;  // filled when a command needs them
  // The words after "--" of a command that runs another one, which no parser reads.
  std::vector<std::string> after_dashes;
  // What an option takes, where its type's name does not say it as "a|b".
  std::map<const CLI::Option*, std::vector<std::string>> choices;
  // What each command does; the first one whose parser was reached runs.
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
};

// Options that `serve` and `call` share: what a client may touch.
struct AccessOptions {
  std::vector<std::string> roots;
  std::string data_dir;
  bool allow_exec = false;
  bool allow_gpu = false;
  bool allow_weaker_sandbox = false;
  std::string python = "";  // absolute
};
void AddAccessOptions(CLI::App& command, AccessOptions& access);
// --python, of those that start a server.
void AddPythonOption(CLI::App& command, AccessOptions& access);

// --allow-weaker-sandbox, of everything that can run code of the user's.
void AddWeakerSandboxOption(CLI::App& command, bool& allowed);

// --allow-gpu, of everything that can run Python of the user's.
void AddGpuOption(CLI::App& command, bool& allowed);

void AddServeCommand(CommandSet& set);
void AddTwinCommand(CommandSet& set, const Tool& tool);
// `--input A B` becomes `--input A --input B`, of a tool's command that has no bare words: nothing
// else could be meant there.
void RepeatListOptions(const std::vector<Tool>& tools, std::vector<std::string>& words);
void AddRulesCommand(CommandSet& set);
void AddKnowledgeCommands(CommandSet& set);
void AddCallCommand(CommandSet& set);
void AddRunCommand(CommandSet& set);
void AddPackCommand(CommandSet& set);
void AddExportCommand(CommandSet& set);
void AddShipCommand(CommandSet& set);
void AddCaptureCommand(CommandSet& set);
void AddReportCommand(CommandSet& set);
void AddViewCommand(CommandSet& set);
void AddTapeCommand(CommandSet& set);
void AddConfigCommand(CommandSet& set);
void AddInstallCommand(CommandSet& set);
void AddDoctorCommand(CommandSet& set);
void AddShellCommands(CommandSet& set);

// The sub-command `name` of `parent`, which is made if it does not exist ("knowledge" is shared by
// several).
CLI::App* FindOrAddCommand(CLI::App& parent, const std::string& name,
                           const std::string& description);

// `text` broken at spaces so that no line is longer than `columns` bytes; line breaks in it stay.
std::string Wrap(const std::string& text, size_t columns);

// Prints the error on stderr, as JSON `{"error":{"kind","message"}}` or as "mpnanny COMMAND:
// message", and returns kExitError.
int PrintError(const CommandLineContext& context, const std::string& command, const Error& error,
               bool json);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_COMMANDS_H_
