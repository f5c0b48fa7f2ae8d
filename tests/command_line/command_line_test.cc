// The command line over tools that are made here, and over the product's own through the built
// program.
#include "server/command_line/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/version.h"
#include "server/command_line/pasted_log.h"

namespace mpnanny {
namespace {

// Answers its arguments, so that a test sees what the command line made of the words. Asked to
// `fail`, it fails.
Tool EchoTool() {
  Tool tool;
  tool.definition.name = "echo_things";
  tool.definition.title = "Echo things";
  tool.definition.description = "Echoes. Use other_tool for more.";
  tool.definition.input_schema = *ParseJson(R"({
    "type": "object", "additionalProperties": false,
    "properties": {
      "paths": {"type": "array", "items": {"type": "string"}, "description": "Files."},
      "min_severity": {"enum": ["error", "warning", "info"], "type": "string", "default": "info", "description": "Least."},
      "rules": {"type": "array", "items": {"type": "string"}, "description": "Only these of `paths`."},
      "kinds": {"type": "array", "items": {"type": "string", "enum": ["inf", "nan"]}, "description": "Kinds."},
      "limit": {"type": "integer", "minimum": 1, "description": "Most."},
      "strict": {"type": "boolean", "default": false, "description": "Strict."},
      "colour": {"type": "boolean", "default": true, "description": "Colour."},
      "run": {"type": "string", "description": "Run."},
      "fail": {"type": "boolean", "default": false, "description": "Fails."},
      "files": {"type": "array", "description": "Texts.", "items": {"type": "object"}},
      "cursor": {"type": "string", "description": "Page."}
    }})");
  tool.definition.output_schema = {{"type", "object"}};
  tool.definition.command = {.name = "echo", .positional = "paths", .options = {{"run", "db"}}};
  tool.definition.command.extra_options = *ParseJson(
      R"({"fail_on": {"type": "string", "enum": ["error", "never"], "default": "error", "description": "Exit 1."}})");
  tool.definition.command.exit_code = [](const Json& structured, const Json& extra) {
    return extra["fail_on"] == "error" && structured["strict"] == true ? 1 : 0;
  };
  tool.definition.command.aliases = {{"limit", "most"}};
  tool.definition.command.formats["md"] = [](const Json& structured, const FormatContext&) {
    return "# " + std::to_string(structured.size());
  };
  tool.run = [](const Json& arguments, const ToolContext& context) -> Result<ToolOutput> {
    if (arguments["fail"] == true)
      return NotFound("`run` names nothing.", "Try another; page_numbers lists them.");
    Json structured = arguments;
    structured["whole"] = context.answer_bytes > kAnswerBytes;
    structured["unrestricted"] = context.roots.unrestricted();
    structured["allow_exec"] = context.allow_exec;
    structured["allow_gpu"] = context.allow_gpu;
    const std::string next = " Next: page_numbers, not my/page_numbers.py or page_numbers(x).";
    return ToolOutput{structured, "echoed" + next};
  };
  return tool;
}

// Seven numbers, three a page.
Tool PagedTool() {
  Tool tool;
  tool.definition.name = "page_numbers";
  tool.definition.title = "Page numbers";
  tool.definition.description = "Pages.";
  tool.definition.input_schema = *ParseJson(R"({"type": "object", "additionalProperties": false,
    "properties": {"cursor": {"type": "string", "description": "Page."}}})");
  tool.definition.output_schema = {{"type", "object"}};
  tool.definition.command = {.name = "numbers list", .positional = ""};
  tool.run = [](const Json& arguments, const ToolContext&) -> Result<ToolOutput> {
    const int first = std::stoi(arguments.value("cursor", "0"));
    ToolOutput output{{{"numbers", Json::array()}, {"notes", {"one note"}}, {"total", 7}}, "page"};
    for (int i = first; i < std::min(first + 3, 7); ++i) output.structured["numbers"].push_back(i);
    if (first + 3 < 7) output.structured["next_cursor"] = std::to_string(first + 3);
    return output;
  };
  return tool;
}

// Needs one thing, which has an option of another name.
Tool NeedyTool() {
  Tool tool = EchoTool();
  tool.definition.name = "need_run";
  tool.definition.input_schema = *ParseJson(R"({"type": "object", "additionalProperties": false,
    "required": ["run"], "properties": {"run": {"type": "string", "description": "Run."}}})");
  tool.definition.command = {.name = "need", .positional = "", .options = {{"run", "db"}}};
  tool.definition.command.from_stdin = "run";
  tool.run = [](const Json& arguments, const ToolContext&) -> Result<ToolOutput> {
    const std::string run = arguments["run"];
    if (run.find('/') == std::string::npos) return ToolOutput{arguments, "needed"};
    const auto log = ReadFile(run, 1 << 20);
    if (!log) return log.error();
    if (*log == "bad\n") return InvalidInput(run + ": no log.");
    return ToolOutput{{{"run", run + "#1"}, {"log", *log}}, "Log of " + run + "."};
  };
  return tool;
}

struct Outcome {
  int code = -1;
  std::string out, err;
  Json json() const { return *ParseJson(out); }
};

Outcome Type(const std::vector<std::string>& arguments, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const CommandLineContext context{
      .tools = [] { return std::vector<Tool>{EchoTool(), PagedTool(), NeedyTool()}; },
      .resource_templates = [] { return std::vector<ResourceTemplate>{}; },
      .in = in,
      .out = out,
      .err = err};
  Outcome outcome;
  outcome.code = RunCommandLine(arguments, context);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

// Such as a log that was copied from a terminal.
TEST(CommandLine, ADashReadsALogFromStdin) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"need", "-", "--format", "json"},
        std::vector<std::string>{"need", "--db", "-", "--format", "json"}}) {
    const Outcome outcome = Type(words, "step 1 loss nan\n");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json(), (Json{{"run", "stdin#1"}, {"log", "step 1 loss nan\n"}}));
  }
  EXPECT_EQ(Type({"need", "-"}, "step 1 loss nan\n").out, "Log of stdin.\n");
  const Outcome bad = Type({"need", "-"}, "bad\n");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find(" stdin: no log."), std::string::npos) << bad.err;
  const Outcome empty = Type({"need", "-"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_NE(empty.err.find("stdin is empty"), std::string::npos) << empty.err;
  EXPECT_NE(Type({"need", "--help"}).out.find("\"-\" reads a log from stdin"), std::string::npos);

  std::istringstream long_one(std::string(100, 'x'));
  const auto read = PastedLog::Read(long_one, 99);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("more than 99 bytes"), std::string::npos);
}

TEST(Twin, OptionsAreMadeFromTheSchema) {
  const Outcome outcome =
      Type({"echo",        "a.py", "b.py",    "--min-severity", "error",   "--rules",  "x,y",
            "--rules",     "z",    "--kinds", "inf,nan",        "--limit", "3",        "--strict",
            "--no-colour", "--db", "m.db",    "--fail-on",      "never",   "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json["paths"], Json({"a.py", "b.py"}));
  EXPECT_EQ(json["min_severity"], "error");
  EXPECT_EQ(json["rules"], Json({"x,y", "z"})) << "a comma may be part of a name or a path";
  EXPECT_EQ(json["kinds"], Json({"inf", "nan"}));
  EXPECT_EQ(json["limit"], 3);
  EXPECT_EQ(json["strict"], true);
  EXPECT_EQ(json["colour"], false);
  EXPECT_EQ(json["run"], "m.db");
  EXPECT_EQ(json["whole"], true) << "a command's answer is not cut to a model's window";
  EXPECT_EQ(json["unrestricted"], true);
}

TEST(Twin, AnOptionDoesNotSwallowThePositionals) {
  const Outcome outcome = Type({"echo", "--rules", "x", "a.py", "call", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["rules"], Json({"x"}));
  EXPECT_EQ(outcome.json()["paths"], Json({"a.py", "call"}))
      << "a file may be called like a command";
}

TEST(Twin, PositionalsAreTakenAsTheyStand) {
  const auto paths = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"echo", "--format", "json"});
    const Outcome outcome = Type(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? outcome.json()["paths"] : Json();
  };
  EXPECT_EQ(paths({"[id]", "[a, b]"}), Json({"[id]", "[a, b]"}));
  EXPECT_EQ(paths({"--", "x.py"}), Json::array({"x.py"}));
  EXPECT_EQ(paths({"--", "-x.py", "--y", "z"}), Json({"-x.py", "--y", "z"}));
  EXPECT_EQ(Type({"need", "--format", "json", "--", "[m].db"}).json()["run"], "[m].db");
}

TEST(Twin, TheOnlyThingThatAToolNeedsMayStandBare) {
  EXPECT_EQ(Type({"need", "--db", "m.db", "--format", "json"}).json()["run"], "m.db");
  EXPECT_EQ(Type({"need", "m.db", "--format", "json"}).json()["run"], "m.db");
}

TEST(Twin, ACommandAboutARunTakesTheOneRecordedHere) {
  const Outcome nothing = Type({"need", "--format", "json"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("nanny_logs/metrics.db"), std::string::npos) << nothing.err;
  EXPECT_NE(Type({"need", "--help"}).out.find("(default: nanny_logs/metrics.db)"),
            std::string::npos);
  EXPECT_FALSE(Type({"echo", "--format", "json"}).json().contains("run")) << "an option of it";
}

TEST(Twin, TextIsTheDefaultAndOtherFormatsAreTheTools) {
  // The tool's words name a tool; a person's name its command.
  EXPECT_EQ(Type({"echo"}).out,
            "echoed Next: `mpnanny numbers list`, not my/page_numbers.py or page_numbers(x).\n");
  EXPECT_EQ(Type({"echo", "--format", "md"}).out.substr(0, 2), "# ");
  const Outcome wrong = Type({"echo", "--format", "xml"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("text, json, md"), std::string::npos) << wrong.err;
}

TEST(Twin, ArgumentsAreNamedAsOptions) {
  const std::string help = Type({"echo", "--help"}).out;
  EXPECT_NE(help.find("Only these of PATH."), std::string::npos) << help;
  EXPECT_EQ(help.find("`paths`"), std::string::npos) << help;
}

TEST(Twin, ExitCodes) {
  EXPECT_EQ(Type({"echo"}).code, 0);
  EXPECT_EQ(Type({"echo", "--strict"}).code, 1);
  EXPECT_EQ(Type({"echo", "--strict", "--min-severity", "error"}).code, 1);
  EXPECT_EQ(Type({"echo", "--most", "3", "--format", "json"}).json()["limit"], 3)
      << "a second name";
  EXPECT_EQ(Type({"echo", "--strict", "--fail-on", "never"}).code, 0);
  const Outcome wrong = Type({"echo", "--fail-on", "sometimes"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(wrong.err.starts_with("mpnanny echo: --fail-on must be one of")) << wrong.err;
  EXPECT_EQ(Type({"echo", "--fail"}).code, 2);
}

TEST(Twin, ErrorsGoToStderrInTheWordsOfTheCommandLine) {
  const Outcome text = Type({"echo", "--fail"});
  EXPECT_EQ(text.out, "");
  EXPECT_EQ(text.err,
            "mpnanny echo: --db names nothing. Try another; `mpnanny numbers list` lists them.\n");
  const Outcome wrong = Type({"echo", "--limit", "many"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--limit must be an integer"), std::string::npos) << wrong.err;
  const Outcome json = Type({"echo", "--fail", "--format", "json"});
  EXPECT_EQ((*ParseJson(json.err))["error"]["kind"], "NotFound") << json.err;
  EXPECT_EQ(json.out, "");
}

TEST(Twin, PagesAreFollowedToTheEnd) {
  const Outcome outcome = Type({"numbers", "list", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["numbers"], Json({0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(outcome.json()["notes"], Json({"one note"}));
  EXPECT_FALSE(outcome.json().contains("next_cursor"));
}

TEST(Usage, UnknownCommandsAndOptionsNameTheNearest) {
  const Outcome command = Type({"eco", "a.py"});
  EXPECT_EQ(command.code, 2);
  EXPECT_NE(command.err.find("no command 'eco'. Did you mean 'echo'?"), std::string::npos)
      << command.err;
  const Outcome option = Type({"echo", "--min-severty=error"});
  EXPECT_EQ(option.code, 2);
  EXPECT_NE(option.err.find("Did you mean '--min-severity'?"), std::string::npos) << option.err;
  const Outcome nested = Type({"numbers", "lst"});
  EXPECT_EQ(nested.code, 2);
  EXPECT_NE(nested.err.find("'list'"), std::string::npos) << nested.err;
  EXPECT_EQ(Type({"zzzzzzzz"}).code, 2);
  EXPECT_EQ(Type({"numbers", "list", "loss", "is"}).code, 2);
}

TEST(Usage, HelpTellsEveryOptionAndCommand) {
  const Outcome help = Type({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* command : {"serve", "echo", "numbers", "knowledge", "rules", "call", "config"}) {
    EXPECT_NE(help.out.find(std::string("\n  ") + command + " "), std::string::npos) << command;
  }
  const Outcome echo = Type({"echo", "--help"});
  // `colour` is on by default: its flag says that it turns that off.
  EXPECT_NE(echo.out.find("Without it: Colour."), std::string::npos) << echo.out;
  EXPECT_EQ(echo.code, 0);
  for (const char* option : {"--min-severity", "error|warning|info", "default: info", "--rules",
                             "--no-colour", "--db", "--fail-on", "--format", "json|md"}) {
    EXPECT_NE(echo.out.find(option), std::string::npos) << option << " in\n" << echo.out;
  }
  EXPECT_EQ(echo.out.find("--cursor"), std::string::npos);
  EXPECT_EQ(echo.out.find("--files"), std::string::npos) << "objects cannot be typed as options";
}

TEST(Usage, VersionNamesWhatOthersDependOn) {
  const Outcome outcome = Type({"--version"});
  EXPECT_EQ(outcome.code, 0);
  for (const std::string& part :
       {std::string(kVersion), std::string(kRevision), std::string("2026-07-28"),
        "schema " + std::to_string(kSchemaVersion)}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  }
}

TEST(Usage, NothingTypedShowsTheHelp) {
  EXPECT_EQ(Type({}).code, 0);
  EXPECT_EQ(Type({}).out, Type({"--help"}).out);
}

TEST(Call, PrintsWhatAClientWouldGet) {
  const Outcome outcome = Type(
      {"call", "echo_things", "--args", R"({"limit": "4"})", "--root", "/tmp", "--allow-exec"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["limit"], 4);
  EXPECT_EQ(outcome.json()["whole"], false);
  EXPECT_EQ(outcome.json()["unrestricted"], false);
  EXPECT_EQ(outcome.json()["allow_exec"], true);
  EXPECT_EQ(outcome.json()["allow_gpu"], false);
  EXPECT_EQ(Type({"call", "echo_things"}).json()["allow_exec"], false);
  EXPECT_EQ(Type({"call", "echo_things", "--allow-gpu"}).json()["allow_gpu"], true);
}

TEST(Call, TakesItsArgumentsFromAFileOrStdin) {
  EXPECT_EQ(Type({"call", "echo_things", "--args", "-"}, R"({"limit": 5})").json()["limit"], 5);
  const std::string path = ::testing::TempDir() + "call_arguments.json";
  std::ofstream(path) << R"({"limit": 6})";
  EXPECT_EQ(Type({"call", "echo_things", "--args", "@" + path}).json()["limit"], 6);
}

TEST(Call, StdinIsReadOnlyUpToALimit) {
  const Outcome outcome =
      Type({"call", "echo_things", "--args", "-"}, R"({"limit": 5})" + std::string(17u << 20, ' '));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("stdin holds more than"), std::string::npos) << outcome.err;
}

TEST(Call, EveryErrorIsJsonOnStderrAndExitCode2) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"call", "echo_thing"}, "NotFound"},
      {{"call", "echo_things", "--args", "{"}, "InvalidInput"},
      {{"call", "echo_things", "--args", "[]"}, "InvalidInput"},
      {{"call", "echo_things", "--args", "@/no/such/file"}, "InvalidInput"},
      {{"call", "echo_things", "--args", R"({"limt": 1})"}, "InvalidInput"},
      {{"call", "echo_things", "--args", R"({"fail": true})"}, "NotFound"},
      {{"call", "echo_things", "--root", "/no/such/folder"}, "NotFound"},
  };
  for (const auto& [arguments, kind] : cases) {
    const Outcome outcome = Type(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    const auto error = ParseJson(outcome.err);
    ASSERT_TRUE(error) << outcome.err;
    EXPECT_EQ((*error)["error"]["kind"], kind) << outcome.err;
    EXPECT_FALSE((*error)["error"]["message"].get<std::string>().empty());
  }
}

TEST(Knowledge, TheProductsOwnCasesHaveNoProblem) {
  const Outcome outcome = Type({"knowledge", "lint"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find(" 0 problems"), std::string::npos) << outcome.out;
}

TEST(Knowledge, ATemplateIsPrintedOnlyForAnIdThatCanBeUsed) {
  const Outcome outcome = Type({"knowledge", "new", "my-bad-pattern"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("id: my-bad-pattern"), std::string::npos) << outcome.out;
  EXPECT_EQ(Type({"knowledge", "new", "My Bad Pattern"}).code, 2);
  EXPECT_EQ(Type({"knowledge", "new", "clip-before-unscale"}).code, 2) << "the id is taken";
  EXPECT_EQ(Type({"knowledge"}).code, 2);
}

TEST(Knowledge, ABrokenCaseOfATeamIsNamed) {
  namespace fs = std::filesystem;
  const std::string folder = ::testing::TempDir() + "team_data";
  fs::create_directories(folder + "/knowledge/cases");
  std::ofstream(folder + "/knowledge/cases/ours.md") << "---\nid: ours\n---\nNothing.\n";
  const Outcome outcome = Type({"knowledge", "lint", "--data-dir", folder, "--format", "json"});
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  const Json problems = outcome.json()["problems"];
  EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), [](const Json& problem) {
    return problem["file"] == "knowledge/cases/ours.md" && problem["severity"] == "error";
  })) << outcome.out;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace mpnanny
