// A tool as a command: options from its input schema, answer as text, JSON or one of the tool's own
// formats.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/json_schema.h"
#include "server/command_line/command_words.h"
#include "server/command_line/commands.h"
#include "server/command_line/follow.h"
#include "server/command_line/pasted_log.h"
#include "server/command_line/progress_line.h"
#include "server/command_line/twin_words.h"
#include "server/command_line/whole_answer.h"
#include "tools/call.h"

namespace mpnanny {
namespace {

constexpr size_t kAboutColumns = 100;

// What the parser writes into; it lives as long as the command.
struct TwinValues {
  std::map<std::string, std::vector<std::string>> given;  // property -> words, in the order typed
  std::map<std::string, std::vector<std::string>> extra;  // extra option -> words
  std::map<std::string, bool> flags;
  std::string format = "text";
  std::string data_dir;
  bool allow_gpu = false;
  bool allow_weaker_sandbox = false;
  bool watch = false;
  double interval = 2;  // seconds
};

std::string HelpText(const Json& schema, const ToolDefinition& definition,
                     const std::vector<Tool>& tools, bool or_stdin = false,
                     bool recorded_here = false) {
  std::string text =
      WithCommandNames(WithOptionNames(schema.value("description", ""), definition), tools);
  if (or_stdin) text += " \"-\" reads a log from stdin.";
  if (recorded_here) text += std::string(" (default: ") + kRecordedHere + ")";
  const auto initial = schema.find("default");
  if (initial != schema.end() && !initial->is_boolean() && !initial->empty() && *initial != "") {
    text += " (default: " + (initial->is_string() ? initial->get<std::string>() : initial->dump()) +
            ")";
  }
  return text;
}

void AddOption(CommandSet& set, CLI::App& command, const std::string& option,
               const std::string& property, const Json& schema, const std::string& help,
               std::vector<std::string>& words) {
  CLI::Option* const added = command.add_option(option, words, help);
  if (auto choices = EnumWords(schema); !choices.empty()) set.choices[added] = std::move(choices);
  added->type_name(ValueName(property, schema))->allow_extra_args(false);
  if (IsType(schema, "array")) {
    // Words from a fixed list, and those whose pattern has no comma, may stand together ("a,b"); a
    // path or a glob may have a comma in it.
    const Json items = schema.value("items", Json::object());
    if (items.contains("enum") || items.value("pattern", "") == "^[^,]*$") added->delimiter(',');
  } else {
    added->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

// A tool's error for who types its command.
Error AsTyped(Error error, const ToolDefinition& definition) {
  if (error.hint.starts_with("Its arguments are "))
    error.hint.clear();  // `--help` lists the options
  const std::string tool = definition.name + ": ";
  if (error.message.starts_with(tool)) error.message.erase(0, tool.size());
  return WithOptionNames(std::move(error), definition);
}

Json Arguments(const ToolDefinition& definition, const TwinValues& values) {
  Json arguments = Json::object();
  for (const auto& [property, schema] : Properties(definition).items()) {
    const auto flag = values.flags.find(property);
    if (flag != values.flags.end()) {
      if (flag->second) arguments[property] = !schema.value("default", false);
      continue;
    }
    const auto words = values.given.find(property);
    if (words == values.given.end() || words->second.empty()) continue;
    arguments[property] =
        IsType(schema, "array") ? Json(words->second) : Json(words->second.back());
  }
  return arguments;
}

// Whether a command is about one run, which is then the one recorded here if none is named.
bool IsAboutARun(const ToolDefinition& definition) {
  return Properties(definition).contains("run") && Holds(BareProperties(definition), "run");
}

// True if the run recorded here was taken. A log may stand in the run's place.
bool AddRecordedHere(const ToolDefinition& definition, Json& arguments) {
  const bool given =
      arguments.contains("run") || arguments.contains("log_text") || arguments.contains("log_path");
  if (given || !IsAboutARun(definition)) return false;
  arguments["run"] = kRecordedHere;
  return true;
}

// Values of the options that only the command line has, with their defaults.
Result<Json> Extra(const ToolDefinition& definition, const TwinValues& values) {
  const CommandTwin& twin = definition.command;
  Json extra = Json::object();
  for (const auto& [name, schema] : twin.extra_options.items()) {
    if (IsType(schema, "boolean")) {
      const auto flag = values.flags.find(name);
      extra[name] = flag != values.flags.end() && flag->second;
      continue;
    }
    const auto words = values.extra.find(name);
    if (words != values.extra.end() && !words->second.empty()) {
      extra[name] = words->second.back();
    } else if (schema.contains("default")) {
      extra[name] = schema["default"];
    }
  }
  const Json schema = {{"type", "object"}, {"properties", twin.extra_options}};
  MPN_TRY(ValidateAgainstSchema(schema, extra, definition.name));
  return extra;
}

int RunTwin(const CommandSet& set, const Tool& tool, const TwinValues& values) {
  const CommandLineContext& context = set.context;
  const ToolDefinition& definition = tool.definition;
  const CommandTwin& twin = definition.command;
  const bool json = values.format == "json";
  const auto fail = [&](const Error& error) {
    Error said = AsTyped(error, definition);
    if (!json) said = WithCommandNames(std::move(said), set.tools);
    return PrintError(context, twin.name, said, json);
  };
  if (values.format != "text" && !json && !twin.formats.contains(values.format)) {
    std::vector<std::string> formats = {"text", "json"};
    for (const auto& [name, unused] : twin.formats) formats.push_back(name);
    return fail(InvalidInput("--format must be one of " + Join(formats, ", ") + ", not '" +
                             EscapeControl(values.format, 60) + "'."));
  }
  Result<Json> extra = Extra(definition, values);
  if (!extra) return fail(extra.error());
  Result<DataFiles> data = DataFiles::Create(values.data_dir);
  if (!data) return fail(data.error());
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  // Who types a command may run code anyway.
  ProgressLine progress(context.err, context.progress && !values.watch, "mpnanny " + twin.name);
  const ToolContext call{.roots = roots,
                         .data = *data,
                         .cancel = {},
                         .allow_exec = true,
                         .answer_bytes = SIZE_MAX,
                         .progress = progress.Report(),
                         .allow_gpu = values.allow_gpu,
                         .allow_weaker_sandbox = values.allow_weaker_sandbox};
  Json arguments = Arguments(definition, values);
  for (const auto& [flag, meant] : twin.shorthands) {
    if (extra->value(flag, false)) arguments.update(meant);
  }
  const bool recorded_here = AddRecordedHere(definition, arguments);
  std::optional<PastedLog> pasted;
  if (!twin.from_stdin.empty() && arguments.value(twin.from_stdin, Json()) == "-") {
    Result<PastedLog> read = PastedLog::Read(context.in);
    if (!read) return fail(read.error());
    pasted.emplace(*std::move(read));
    arguments[twin.from_stdin] = pasted->path();
  }
  const auto show = [&](const ToolOutput& output) {
    if (json) {
      context.out << (values.watch ? DumpJson(output.structured)
                                   : DumpJsonPretty(output.structured))
                  << "\n";
      return;
    }
    const AnswerFormat& format =
        values.format == "text" ? twin.terminal : twin.formats.at(values.format);
    std::string text = format ? format(output.structured, {*data, context.colour}) : output.text;
    // Other formats are read by programs, or elsewhere than here.
    if (values.format == "text") {
      if (!twin.quotes_pages) text = WithOptionNames(std::move(text), definition);
      text = WithCommandNames(text, set.tools);
    }
    context.out << text << (text.empty() || text.ends_with("\n") ? "" : "\n");
  };
  const auto ask = [&](const Json& asked) {
    Result<ToolOutput> answer = CallWhole(tool, asked, call);
    return pasted ? pasted->Shown(std::move(answer)) : std::move(answer);
  };
  const bool only_afterwards =
      values.format == "text" && twin.only_afterwards && twin.only_afterwards(*extra);
  if (values.watch && !(values.interval > 0 && values.interval <= 86400)) {
    return fail(InvalidInput("--interval must be a number of seconds above 0."));
  }
  const auto follow = [&] {
    return Follow({.out = context.out,
                   .states = context.terminal && !json,
                   .interval = values.interval,
                   .state = [&](const Json& asked) { return twin.state(asked, call); },
                   .ask = ask,
                   .essence = twin.essence,
                   .show = show},
                  arguments);
  };
  const Result<ToolOutput> output = values.watch ? follow() : ask(arguments);
  if (!values.watch) {
    progress.Done();
    if (output && !only_afterwards) show(*output);
  }
  if (!output) {
    Error error = output.error();
    if (recorded_here && error.kind == ErrorKind::kNotFound) error.hint = kHowToRecord;
    return fail(error);
  }
  if (twin.afterwards) {
    const Result<Afterwards> done = twin.afterwards(output->structured, *extra);
    if (!done) return fail(done.error());
    (values.format == "text" ? context.out : context.err) << done->shown;
    (values.format == "text" && !only_afterwards ? context.out : context.err) << done->notes;
  }
  return twin.exit_code ? twin.exit_code(output->structured, *extra) : 0;
}

}  // namespace

void RepeatListOptions(const std::vector<Tool>& tools, std::vector<std::string>& words) {
  const auto tool = std::find_if(tools.begin(), tools.end(), [&](const Tool& each) {
    return each.definition.command.name == words.front();
  });
  if (tool == tools.end() || !BareProperties(tool->definition).empty()) return;
  std::vector<std::string> lists;
  for (const auto& [property, schema] : Properties(tool->definition).items()) {
    if (IsOption(property, schema) && IsType(schema, "array")) {
      lists.push_back(OptionName(tool->definition.command, property));
    }
  }
  std::string open;  // the list whose first word has come
  std::vector<std::string> made;
  for (size_t at = 0; at < words.size(); ++at) {
    const bool is_option = words[at].starts_with("--");
    if (!open.empty() && !is_option) made.push_back(open);
    made.push_back(words[at]);
    if (is_option) open.clear();
    if (Holds(lists, words[at]) && at + 1 < words.size()) {
      open = words[at];
      made.push_back(words[++at]);
    }
  }
  words = std::move(made);
}

void AddTwinCommand(CommandSet& set, const Tool& tool) {
  const ToolDefinition& definition = tool.definition;
  const CommandTwin& twin = definition.command;
  CLI::App* parent = &set.parser;
  std::string name = twin.name;
  if (const size_t space = name.find(' '); space != std::string::npos) {
    parent = FindOrAddCommand(*parent, name.substr(0, space), "");
    name = name.substr(space + 1);
  }
  const std::string about =
      WithCommandNames(WithOptionNames(definition.description, definition), set.tools);
  CLI::App& command =
      *parent->add_subcommand(name, definition.title + "\n\n" + Wrap(about, kAboutColumns));
  command.group("Commands");
  const std::vector<std::string> bare = BareProperties(definition);
  const std::vector<std::string> only_bare = NamedBareProperties(twin);
  const auto values = std::make_shared<TwinValues>();
  for (const auto& [property, schema] : Properties(definition).items()) {
    const bool or_stdin = property == twin.from_stdin;
    const bool recorded_here = property == "run" && IsAboutARun(definition);
    if (Holds(bare, property)) {
      const bool list = IsType(schema, "array");
      // Extra arguments are off, else the parser reads "[a, b]" as a list. It then gives an option
      // no more words than it expects at least, and TakeLast forgives that there are fewer.
      const int words = list ? CLI::detail::expected_max_vector_size : 1;
      CLI::Option* const added =
          command.add_option(BareName(property, schema), values->given[property],
                             HelpText(schema, definition, set.tools, or_stdin, recorded_here));
      if (auto choices = EnumWords(schema); !choices.empty()) {
        set.choices[added] = std::move(choices);
      }
      added->type_name("")
          ->allow_extra_args(false)
          ->expected(words, words)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      if (Holds(only_bare, property)) continue;
    }
    if (!IsOption(property, schema)) {
      continue;
    } else if (IsType(schema, "boolean")) {
      const bool initial = schema.value("default", false);
      std::string option = OptionName(twin, property);
      if (initial) option.insert(2, "no-");
      // Its description tells what happens without the flag.
      const std::string help =
          (initial ? "Without it: " : "") + HelpText(schema, definition, set.tools);
      command.add_flag(option, values->flags[property], help);
    } else {
      const auto alias = twin.aliases.find(property);
      const std::string also = alias == twin.aliases.end() ? "" : ",--" + alias->second;
      AddOption(set, command, OptionName(twin, property) + also, property, schema,
                HelpText(schema, definition, set.tools, or_stdin, recorded_here),
                values->given[property]);
    }
  }
  for (const auto& [option, schema] : twin.extra_options.items()) {
    if (IsType(schema, "boolean")) {
      command.add_flag(OptionName(twin, option), values->flags[option],
                       HelpText(schema, definition, set.tools));
      continue;
    }
    AddOption(set, command, OptionName(twin, option), option, schema,
              HelpText(schema, definition, set.tools), values->extra[option]);
  }
  std::string formats = "text|json";
  for (const auto& [format, unused] : twin.formats) formats += "|" + format;
  command
      .add_option("--format", values->format,
                  "How the answer is printed; json is the whole of it (default: text)")
      ->type_name(formats);
  command
      .add_option("--data-dir", values->data_dir,
                  "Folder of your own rules and cases, laid out as in the repository")
      ->type_name("DIR");
  if (definition.runs_code) AddGpuOption(command, values->allow_gpu);
  if (definition.runs_code || definition.may_run_code)
    AddWeakerSandboxOption(command, values->allow_weaker_sandbox);
  if (twin.state) {
    command.add_flag("--watch", values->watch,
                     "Follow a run that goes on until it ends: the answer again whenever it says "
                     "something new. With --format json one object a line");
    command
        .add_option("--interval", values->interval,
                    "With --watch: look again after so many seconds (default: 2)")
        ->type_name("SECONDS");
  }
  set.actions.emplace_back(&command, [&set, &tool, values] { return RunTwin(set, tool, *values); });
}

}  // namespace mpnanny
