#include "tools/call.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "engines/json_schema.h"
#include "tools/arguments.h"

namespace mpnanny {
namespace {

// What the arguments that `problems` speak of are for: tools/list says it in brief.
std::string Explanations(const Json& schema, const std::vector<std::string>& problems) {
  std::string text;
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, property] : properties.items()) {
    const std::string about = property.value("description", "");
    const bool meant = std::any_of(problems.begin(), problems.end(), [&](const auto& problem) {
      const std::string start = "`" + name;
      return problem.starts_with(start) && problem.size() > start.size() &&
             std::string_view("`[.").find(problem[start.size()]) != std::string_view::npos;
    });
    if (meant && !about.empty()) text += " `" + name + "`: " + about;
  }
  return text;
}

// What the command line calls an argument is taken as well: `step` for `steps`, `db` for `run`.
void TakeCommandNames(const ToolDefinition& definition, Json& arguments) {
  for (const auto* names : {&definition.command.options, &definition.command.aliases}) {
    for (const auto& [property, name] : *names) {
      std::string option = name;
      std::replace(option.begin(), option.end(), '-', '_');
      const auto given = arguments.find(option);
      if (given == arguments.end() || arguments.contains(property)) continue;
      Json value = std::move(*given);
      arguments.erase(option);
      arguments[property] = std::move(value);
    }
  }
}

Error HandlerThrew(const std::string& tool, const char* what) {
  const std::string id = LogError(tool + " threw: " + what);
  return Internal("Internal error in " + tool + ". Log id " + id +
                  "; the details are on the server's stderr.");
}

}  // namespace

Result<ToolOutput> CallTool(const Tool& tool, Json arguments, const ToolContext& context) {
  const ToolDefinition& definition = tool.definition;
  const TraceSpan span("tool", definition.name);
  if (auto stopped = context.cancel.Check(); !stopped) return stopped.error();
  try {
    if (arguments.is_null()) arguments = Json::object();
    if (!arguments.is_object()) {
      return InvalidInput(definition.name + ": the arguments must be an object, not " +
                          ShownJson(arguments) + ".");
    }
    TakeCommandNames(definition, arguments);
    NormaliseArguments(definition.input_schema, arguments);
    const std::vector<std::string> problems =
        SchemaProblems(definition.input_schema, arguments, "the arguments");
    if (!problems.empty()) {
      const std::vector<std::string> names = PropertiesOf(definition.input_schema);
      return InvalidInput(definition.name + ": " + JoinProblems(problems),
                          names.empty() ? "It takes no arguments."
                                        : "Its arguments are " + Join(names, ", ") + "." +
                                              Explanations(definition.input_schema, problems));
    }
    return tool.run(arguments, context);
  } catch (const std::exception& thrown) {
    return HandlerThrew(definition.name, thrown.what());
  } catch (...) {
    return HandlerThrew(definition.name, "something that is no std::exception");
  }
}

}  // namespace mpnanny
