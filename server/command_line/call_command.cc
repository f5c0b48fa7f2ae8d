// `mpnanny call TOOL --args JSON`: what an MCP client would get, without a client.
#include <istream>
#include <memory>
#include <ostream>

#include "base/files.h"
#include "base/text.h"
#include "server/command_line/commands.h"
#include "tools/call.h"

namespace mpnanny {
namespace {

// As for every text that is read whole.
constexpr uint64_t kMostArgumentBytes = kMaxTextFileBytes;

// The arguments: JSON as it stands, @FILE, or - for stdin.
Result<Json> ReadArguments(const std::string& text, std::istream& in) {
  if (text == "-") {
    std::string typed(kMostArgumentBytes + 1, '\0');
    in.read(typed.data(), static_cast<std::streamsize>(typed.size()));
    typed.resize(static_cast<size_t>(in.gcount()));
    if (typed.size() > kMostArgumentBytes) {
      return InvalidInput("stdin holds more than " + std::to_string(kMostArgumentBytes >> 20) +
                          " MiB.");
    }
    return ParseJson(typed);
  }
  if (text.starts_with("@")) {
    MPN_TRY_ASSIGN(std::string file, ReadFile(text.substr(1), kMostArgumentBytes));
    return ParseJson(file);
  }
  return ParseJson(text);
}

Result<Json> Call(const CommandSet& set, const std::string& name, const std::string& arguments_text,
                  const AccessOptions& access) {
  std::vector<std::string> names;
  const Tool* chosen = nullptr;
  for (const Tool& tool : set.tools) {
    names.push_back(tool.definition.name);
    if (tool.definition.name == name) chosen = &tool;
  }
  if (!chosen) return NoSuchName("tool", name, names);
  Result<Json> arguments = ReadArguments(arguments_text, set.context.in);
  if (!arguments) {
    return InvalidInput("--args: " + arguments.error().message,
                        "It takes a JSON object, @FILE or - for stdin.");
  }
  MPN_TRY_ASSIGN(AllowedRoots roots, AllowedRoots::Create(access.roots));
  MPN_TRY_ASSIGN(DataFiles data, DataFiles::Create(access.data_dir));
  const ToolContext context{.roots = roots,
                            .data = data,
                            .cancel = {},
                            .allow_exec = access.allow_exec,
                            .answer_bytes = kAnswerBytes,
                            .progress = nullptr,
                            .allow_gpu = access.allow_gpu,
                            .allow_weaker_sandbox = access.allow_weaker_sandbox};
  MPN_TRY_ASSIGN(ToolOutput output, CallTool(*chosen, std::move(*arguments), context));
  return std::move(output.structured);
}

}  // namespace

void AddCallCommand(CommandSet& set) {
  struct Values {
    std::string tool;
    std::string arguments = "{}";
    AccessOptions access;
  };
  const auto values = std::make_shared<Values>();
  CLI::App& command = *set.parser.add_subcommand(
      "call",
      "Call one tool as an MCP client would\n\n"
      "Prints the tool's structuredContent on stdout and exits 0, or prints "
      "{\"error\":{\"kind\",\"message\"}} on\n"
      "stderr and exits 2. Long answers come by pages, as for a client.");
  command.add_option("TOOL", values->tool, "Name of the tool, such as static_check")
      ->required()
      ->type_name("");
  command
      .add_option("--args", values->arguments,
                  "Arguments as a JSON object; @FILE or - for stdin (default: {})")
      ->type_name("JSON");
  AddAccessOptions(command, values->access);
  command.group("For AI agents");
  set.actions.emplace_back(&command, [&set, values] {
    Result<Json> structured = Call(set, values->tool, values->arguments, values->access);
    if (!structured) return PrintError(set.context, "call", structured.error(), true);
    set.context.out << DumpJson(*structured) << "\n";
    return 0;
  });
}

}  // namespace mpnanny
