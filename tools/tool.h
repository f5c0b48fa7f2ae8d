// The contract of a tool: one definition from which the MCP tool, the command-line twin and the
// snapshot test are made.
//
// A tool is a folder tools/<name>/ whose tool.cc defines `Tool MakeTool()` in namespace
// mpnanny::<name>; CMake finds it. tool.cc is the one place that turns JSON into the engine's plain
// structs and back. A Tool is immutable after MakeTool() and its handler is called from several
// threads at once.
#ifndef MPNANNY_TOOLS_TOOL_H_
#define MPNANNY_TOOLS_TOOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"

namespace mpnanny {

// The command-line twin: `mpnanny <name> [positional…] [--option value]`. Options are made from the
// input schema (snake_case becomes --kebab-case, booleans become flags, arrays may be repeated).
struct CommandTwin {
  std::string name;        // "check"; a space makes a sub-command ("knowledge search")
  std::string positional;  // the property that bare arguments fill ("paths"); empty for none
  std::map<std::string, std::string> options =
      {};  // property -> option name where it differs ({"run", "db"})

  // Options that only the command line has, as a JSON schema's `properties` (strings and flags),
  // e.g. --fail-on.
  Json extra_options = Json::object();
  // Of these, flags that stand for arguments: option -> what it sets.
  std::map<std::string, Json> shorthands = {};
  // Exit code of a successful call; null means 0. `extra` holds extra_options' values.
  std::function<int(const Json& structured, const Json& extra)> exit_code = nullptr;
  // Does what only a command may, after the answer was printed; null: nothing.
  std::function<Result<Afterwards>(const Json& structured, const Json& extra)> afterwards = nullptr;
  // Whether the answer as text gives way to what `afterwards` prints; null: never.
  std::function<bool(const Json& extra)> only_afterwards = nullptr;
  // A second name that an option is known by as well: property -> option name.
  std::map<std::string, std::string> aliases = {};
  // The property for which "-" stands for a log that comes from stdin; empty for none.
  std::string from_stdin = "";
  // Further values of --format beside text and json: "md", "sarif".
  std::map<std::string, AnswerFormat> formats = {};
  // Whether answers quote pages, whose words between backticks are code and no arguments.
  bool quotes_pages = false;
  // What --format text prints; null: the answer's text.
  AnswerFormat terminal = nullptr;
  // For --watch, which a command without them does not have. `state` is asked every --interval
  // seconds, so it must be cheap; `essence` is equal for two answers of which the second need not
  // be shown again.
  std::function<Result<WatchedState>(const Json& arguments, const ToolContext& context)> state =
      nullptr;
  std::function<std::string(const Json& structured)> essence = nullptr;
};

struct ToolDefinition {
  std::string name;  // verb_noun, as in docs/architecture.md; final
  std::string title;
  std::string description;  // <= 600 characters: what it answers, when to use it, when not and
                            // which tool instead
  // What tools/list says in place of the description and of the arguments' descriptions (property
  // -> words; none for one that is not named), since every conversation pays for each word there.
  // `--help`, mpnanny://tools/{tool} and the errors have the whole. Without a brief all is listed.
  std::string brief = "";
  std::map<std::string, std::string> brief_arguments = {};
  Json input_schema;   // JSON Schema 2020-12, root type object, additionalProperties false; every
                       // property described
  Json output_schema;  // root type object; describes structuredContent on every path that is no
                       // error
  CommandTwin command;
  // Annotations. Every tool so far only reads; one that does not must say so.
  bool read_only = true;
  bool destructive = false;
  bool idempotent = true;
  bool open_world = false;
  bool runs_code = false;     // of the user's: it answers nothing without --allow-exec
  bool may_run_code = false;  // where an argument asks for it
  // It may take longer than clients wait: the server then answers what there is so far, with a job
  // that the next call passes back. See ToolContext::so_far.
  bool may_go_on = false;
};

struct Tool {
  ToolDefinition definition;
  // `arguments` is an object that fits input_schema, with defaults filled in.
  std::function<Result<ToolOutput>(const Json& arguments, const ToolContext& context)> run;
  // Draws an answer (`structured`, to these arguments) for a client that asks for a picture. Null
  // for tools whose answers are words; the others also have a view where clients show views.
  std::function<Result<Picture>(const Json& arguments, const Json& structured,
                                const ToolContext& context)>
      picture = nullptr;
};

// A family of resources: one URI template with one variable, e.g. mpnanny://knowledge/{case}. A
// folder that has one defines `ResourceTemplate MakeResourceTemplate()` in its resource.cc; CMake
// finds it.
struct ResourceTemplate {
  std::string uri_template;
  std::string variable;  // "case": the one {variable} of the template
  std::string name;
  std::string title;
  std::string description;
  std::string mime_type = "text/markdown";
  // resources/list shows so many: the first, or of a public family with more of them one page, its
  // index, that names all.
  size_t most_listed = SIZE_MAX;
  bool is_public = true;  // the same for every caller (built-in data); false for what is read from
                          // the user's files

  struct Entry {
    std::string value;  // what the variable stands for (not percent-encoded)
    std::string title;
    std::string description;
  };
  // What resources/list shows and what completes the variable; null for families that cannot be
  // listed.
  std::function<std::vector<Entry>(const ToolContext&)> list;
  std::function<Result<std::string>(const std::string& value, const ToolContext&)> read;
  // What differs when it is worth reading again: asked about once a second for each resource that
  // a client subscribed to, so it must be cheap. Null for families that do not change.
  std::function<std::string(const std::string& value, const ToolContext&)> version = nullptr;
};

// All tools and all resource families, in alphabetical order of their folders (generated by CMake
// from the tree).
std::vector<Tool> AllTools();
std::vector<ResourceTemplate> AllResourceTemplates();

}  // namespace mpnanny

#endif  // MPNANNY_TOOLS_TOOL_H_
