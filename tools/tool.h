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

#include "base/cancel.h"
#include "base/data_files.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

// Answers are written for a model's context window: text and structuredContent each stay below this
// by default.
inline constexpr size_t kAnswerBytes = 8000;

// An answer as an image.
struct Picture {
  std::string png;    // bytes of the file
  std::string shows;  // what is to be seen, with the numbers that matter, for who cannot see it
};

struct ToolOutput {
  Json structured;   // object that fits the tool's output_schema
  std::string text;  // the same facts for people and for clients that show only text
  std::optional<Picture> picture = std::nullopt;
};

// What a handler may use. Everything is borrowed and outlives the call.
struct ToolContext {
  const AllowedRoots& roots;  // every path of a client goes through Resolve()
  const DataFiles& data;
  CancelToken cancel;       // ask it in every loop that can be long
  bool allow_exec = false;  // --allow-exec: may run models and user code
  // How large text and structuredContent may each be. The command line asks for everything
  // (SIZE_MAX).
  size_t answer_bytes = kAnswerBytes;
  // progress must grow; `total` if known. Null when the client did not ask for progress.
  std::function<void(double progress, std::optional<double> total, const std::string& message)>
      progress;
  // What a call has so far, whole and in the shape of its answer: given to the client, as "still
  // running", if the call does not end in time. A tool whose definition says may_go_on calls this
  // now and then once it runs for seconds, and is then not stopped at the deadline. Null where
  // nobody waits (the command line).
  std::function<void(ToolOutput so_far)> so_far = nullptr;
  // --allow-weaker-sandbox: models and user code also where the machine cannot confine them wholly.
  bool allow_weaker_sandbox = false;
  // What has a form in Chinese stands in the answer under "zh" too: for the page, whose readers
  // choose their language.
  bool chinese_too = false;
};

// How the command line shows an answer: its whole structuredContent as text.
struct FormatContext {
  const DataFiles& data;
  bool colour = false;  // what reads it is a terminal that knows colours
};
using AnswerFormat =
    std::function<std::string(const Json& structured, const FormatContext& context)>;

// What something is like at one moment that a command follows with --watch.
struct WatchedState {
  Json arguments;       // those that name this very thing, also when a newer one appears
  std::string version;  // differs when an answer may have changed
  std::string urgent;   // differs when the answer is worth showing although it says the same
  std::string line;     // for people, short
  bool over = false;    // nothing will change any more
};

// What a command has done beside answering: what it shows of it, and what it says about it.
struct Afterwards {
  std::string shown;  // a diff
  std::string notes;  // "Fixed 1 finding in 1 file."
};

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
  bool runs_code = false;  // of the user's: it answers nothing without --allow-exec
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
