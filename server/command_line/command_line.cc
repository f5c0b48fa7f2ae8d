#include "server/command_line/command_line.h"

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>

#include "base/text.h"
#include "server/command_line/commands.h"
#include "server/command_line/help_text.h"
#include "server/command_line/version_text.h"

namespace mpnanny {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kNameColumns = 30;

std::string Footer() {
  std::string out = "Examples:\n";
  for (const HelpExample& example : kExamples) {
    const std::string command = example.command;
    out += "  " + command + std::string(command.size() < 40 ? 40 - command.size() : 1, ' ') +
           example.does + "\n";
  }
  out += "\nExit codes: ";
  std::vector<std::string> parts;
  for (const HelpExitCode& code : kExitCodes) {
    parts.push_back(std::string(code.code) + " " + code.means);
  }
  out =
      out + Wrap(Join(parts, "; ") + ".", kColumns - 12) +
      "\nWithout a command: this help on a terminal; `serve` when a program starts mpnanny, as MCP "
      "clients do.\n";
  parts.clear();
  for (const HelpVariable& variable : kVariables) {
    parts.push_back(std::string(variable.name) + "=" + variable.value + " (" + variable.does + ")");
  }
  return out + Wrap("Environment: " + Join(parts, ", ") + ".", kColumns);
}

// Descriptions wrap, and a command's list entry is the first line of its description.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(kNameColumns);
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return Wrap(CLI::Formatter::make_option_desc(option), kColumns - kNameColumns);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    const std::string description = command->get_description();
    std::ostringstream line;
    CLI::detail::format_help(line, command->get_display_name(true),
                             description.substr(0, description.find('\n')), get_column_width());
    return line.str();
  }
};

std::vector<std::string> CommandNames(const CLI::App& parser) {
  std::vector<std::string> names;
  for (const CLI::App* command : parser.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The innermost command that the arguments reached.
const CLI::App& Reached(const CLI::App& parser) {
  const CLI::App* at = &parser;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  return *at;
}

std::string FullName(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent ? FullName(*parent) + " " + command.get_name() : command.get_name();
}

// What nobody took of the arguments, told with the nearest name that exists there.
std::string UnexpectedText(const CLI::App& parser) {
  const CLI::App& reached = Reached(parser);
  const std::vector<std::string> rest = parser.remaining(true);
  const std::string word = rest.empty() ? "" : rest.front();
  const std::string shown = "'" + EscapeControl(word, 200) + "'";
  if (word.starts_with("-")) {
    const std::string meant = DidYouMean(word.substr(0, word.find('=')), OptionNames(reached));
    // What `run` runs has options of its own.
    const std::string after = reached.get_name() == "run"
                                  ? " What belongs to the command stands after --: mpnanny run -- "
                                    "python train.py --lr 1e-3."
                                  : "";
    return FullName(reached) + " has no option " + shown + "." +
           (meant.empty() ? "" : " " + meant) + after;
  }
  const std::vector<std::string> commands = CommandNames(reached);
  if (!commands.empty()) {
    const std::string meant = DidYouMean(word, commands);
    return FullName(reached) + " has no command " + shown + ". " +
           (meant.empty() ? "Its commands are " + Join(commands, ", ") + "." : meant);
  }
  return FullName(reached) + " does not expect " + shown +
         ". A value of several words stands in quotes.";
}

int Usage(const CLI::App& parser, const CommandLineContext& context, const std::string& message) {
  const std::string name = FullName(Reached(parser));
  context.err << message << "\nRun `" << name << " --help` to see what it takes.\n";
  return kExitError;
}

void AddCommands(CommandSet& set, const std::string& first) {
  if (first == "serve") return AddServeCommand(set);  // others wait for it: nothing else is built
  set.tools = set.context.tools();
  for (const Tool& tool : set.tools) {
    if (!tool.definition.command.name.empty()) AddTwinCommand(set, tool);
  }
  AddRulesCommand(set);
  AddKnowledgeCommands(set);
  AddRunCommand(set);
  AddPackCommand(set);
  AddExportCommand(set);
  AddShipCommand(set);
  AddCaptureCommand(set);
  AddReportCommand(set);
  AddViewCommand(set);
  AddTapeCommand(set);
  AddServeCommand(set);
  AddConfigCommand(set);
  AddInstallCommand(set);
  AddDoctorCommand(set);
  AddCallCommand(set);
  AddShellCommands(set);
}

int ParseAndRun(std::vector<std::string> words, const CommandLineContext& context) {
  CLI::App parser(kSummary, "mpnanny");
  parser.formatter(std::make_shared<HelpFormatter>());
  parser.set_help_flag("-h,--help", "Show this help");
  parser.require_subcommand(0, 1);
  bool version = false;
  parser.add_flag("--version", version, "Show the version, and what this build is made of");

  CommandSet set{parser, context, {}, {}, {}, {}};
  if (words.front() == "run") {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes != words.end()) set.after_dashes.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  try {
    AddCommands(set, words.front());
    parser.footer(Footer());  // after the commands, which would take it over
    RepeatListOptions(set.tools, words);
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    parser.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    context.out << parser.help();  // that of the innermost command reached
    return 0;
  } catch (const CLI::ExtrasError&) {
    return Usage(parser, context, UnexpectedText(parser));
  } catch (const CLI::ParseError& error) {
    return Usage(parser, context,
                 FullName(Reached(parser)) + ": " + EscapeControl(error.what(), 500));
  }
  if (version) {
    context.out << VersionText();
    return 0;
  }
  for (const auto& [command, run] : set.actions) {
    if (command == &Reached(parser)) return run();
  }
  // A family of commands ("knowledge") without one of them.
  context.err << parser.help();
  return kExitError;
}

// Whether who typed this reads errors as JSON.
bool WantsJson(const std::vector<std::string>& words) {
  if (words.front() == "call") return true;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--format=json") return true;
    if (words[i] == "--format" && i + 1 < words.size() && words[i + 1] == "json") return true;
  }
  return false;
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments, const CommandLineContext& context) {
  std::vector<std::string> words = arguments;
  if (words.empty()) words = {context.interactive ? "--help" : "serve"};
  const int code = ParseAndRun(words, context);
  // A full disk: whoever reads the exit code must not take half an answer for the whole.
  context.out.flush();
  if (context.out) return code;
  return PrintError(context, words.front(),
                    Unavailable("The answer could not be written to stdout."), WantsJson(words));
}

std::string Wrap(const std::string& text, size_t columns) {
  std::string out;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      out += '\n';
      line = 0;
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \n", at + 1), text.size());
    std::string word = text.substr(at, end - at);  // with the space before it, if any
    if (line > 0 && line + word.size() > columns) {
      out += '\n';
      line = 0;
      word.erase(0, word.find_first_not_of(' '));
    }
    out += word;
    line += word.size();
    at = end;
  }
  return out;
}

CLI::App* FindOrAddCommand(CLI::App& parent, const std::string& name,
                           const std::string& description) {
  for (CLI::App* command : parent.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return parent.add_subcommand(name, description);
}

int PrintError(const CommandLineContext& context, const std::string& command, const Error& error,
               bool json) {
  if (json) {
    context.err << DumpJson({{"error",
                              {{"kind", ErrorKindName(error.kind)}, {"message", error.Text()}}}})
                << "\n";
  } else {
    context.err << "mpnanny " << command << ": " << error.Text() << "\n";
  }
  return kExitError;
}

}  // namespace mpnanny
