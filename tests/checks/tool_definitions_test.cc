// Every tool's definition: complete, short, honest about other tools, and as the snapshot says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/command_line/command_line.h"
#include "tests/checks/tree.h"
#include "tools/call.h"
#include "tools/tool.h"

namespace mpnanny::checks {
namespace {

constexpr size_t kMostDescription = 600;
constexpr size_t kMostFirstSentence = 250;  // all that tool search shows of a tool
constexpr size_t kMostBrief = 340;  // tests/server/product_test holds the whole list's limit

// Every name of docs/architecture.md; a description may only send a model to those that exist.
const std::set<std::string> kAllNames = {
    "static_check", "analyze_tensor", "auto_diff",        "choose_precision",
    "list_runs",    "run_summary",    "diagnose_run",     "query_alerts",
    "query_stats",  "compare_runs",   "search_knowledge", "compare_logprobs"};

// All that a tool says of itself; tools/list sends it in brief.
Json Listed(const ToolDefinition& definition) {
  return {{"name", definition.name},
          {"title", definition.title},
          {"description", definition.description},
          {"brief", definition.brief},
          {"brief_arguments", definition.brief_arguments},
          {"inputSchema", definition.input_schema},
          {"outputSchema", definition.output_schema},
          {"annotations",
           {{"readOnlyHint", definition.read_only},
            {"destructiveHint", definition.destructive},
            {"idempotentHint", definition.idempotent},
            {"openWorldHint", definition.open_world}}}};
}

Json Snapshot(const ToolDefinition& definition) {
  Json snapshot = Listed(definition);
  const CommandTwin& twin = definition.command;
  std::vector<std::string> formats = {"text", "json"};
  for (const auto& [name, unused] : twin.formats) formats.push_back(name);
  snapshot["command"] = {{"name", twin.name},
                         {"positional", twin.positional},
                         {"options", twin.options},
                         {"extra_options", twin.extra_options},
                         {"formats", formats}};
  return snapshot;
}

void ExpectDescribed(const Json& schema, const std::string& where) {
  if (!schema.contains("properties")) return;
  for (const auto& [name, property] : schema["properties"].items()) {
    const std::string path = where + "." + name;
    EXPECT_FALSE(property.value("description", "").empty()) << path << " is not described";
    EXPECT_TRUE(property.contains("type") || property.contains("enum") ||
                property.contains("anyOf") || property.contains("oneOf") ||
                property.contains("$ref"))
        << path << " has no type";
    if (property.contains("items")) {
      ExpectDescribed(property["items"], path + "[]");
    } else {
      ExpectDescribed(property, path);
    }
  }
}

TEST(ToolDefinitions, NamesAreThoseOfTheDesignAndOfTheFolder) {
  std::set<std::string> seen;
  for (const Tool& tool : AllTools()) {
    const std::string& name = tool.definition.name;
    EXPECT_TRUE(kAllNames.contains(name)) << name;
    EXPECT_TRUE(seen.insert(name).second) << name << " twice";
    EXPECT_TRUE(FindFile("tools/" + name + "/tool.cc"))
        << name << " does not live in the folder of its name";
  }
  for (const SourceFile& file : Tree()) {
    if (!file.path.starts_with("tools/") || !file.path.ends_with("/tool.cc")) continue;
    const std::string folder = file.path.substr(6, file.path.size() - 6 - 8);
    EXPECT_TRUE(seen.contains(folder)) << file.path << " makes a tool of another name";
  }
}

TEST(ToolDefinitions, DescriptionsAreShortAndSendModelsOnlyToToolsThatExist) {
  std::set<std::string> existing;
  for (const Tool& tool : AllTools()) existing.insert(tool.definition.name);
  for (const Tool& tool : AllTools()) {
    const ToolDefinition& definition = tool.definition;
    SCOPED_TRACE(definition.name);
    EXPECT_FALSE(definition.title.empty());
    EXPECT_LE(definition.description.size(), kMostDescription);
    EXPECT_GE(definition.brief.size(), 100u);
    EXPECT_LE(definition.brief.size(), kMostBrief);
    for (const std::string& text : {definition.description, definition.brief}) {
      const std::string first = text.substr(0, text.find(". "));
      EXPECT_GE(first.size(), 20u);
      EXPECT_LE(first.size(), kMostFirstSentence) << "the first sentence must stand alone";
      for (const char* lone : {"It ", "This ", "See "})
        EXPECT_FALSE(first.starts_with(lone)) << first;
      EXPECT_TRUE(text.ends_with(".")) << text;
    }
    const std::string everything = DumpJson(Listed(definition));
    for (const std::string& name : kAllNames) {
      if (!existing.contains(name)) {
        EXPECT_EQ(everything.find(name), std::string::npos)
            << "speaks of " << name << ", which is not there";
      }
    }
  }
}

TEST(ToolDefinitions, SchemasAreCompleteAndClosed) {
  for (const Tool& tool : AllTools()) {
    const ToolDefinition& definition = tool.definition;
    SCOPED_TRACE(definition.name);
    const Json& input = definition.input_schema;
    EXPECT_EQ(input.value("type", ""), "object");
    EXPECT_EQ(input.value("additionalProperties", Json(true)), Json(false));
    ExpectDescribed(input, definition.name);
    for (const Json& required : input.value("required", Json::array())) {
      EXPECT_TRUE(input["properties"].contains(required.get<std::string>())) << required;
    }
    EXPECT_EQ(definition.output_schema.value("type", ""), "object");
    EXPECT_TRUE(definition.output_schema.contains("properties"));
    for (const Json& required : definition.output_schema.value("required", Json::array())) {
      EXPECT_TRUE(definition.output_schema["properties"].contains(required.get<std::string>()))
          << required;
    }
    EXPECT_TRUE(tool.run) << "no handler";
    EXPECT_TRUE(definition.read_only && !definition.destructive) << "analysis only reads";
  }
}

TEST(ToolDefinitions, EveryToolHasACommandOfItsOwn) {
  std::set<std::string> seen = {"serve", "rules", "call", "config"};
  for (const Tool& tool : AllTools()) {
    const CommandTwin& twin = tool.definition.command;
    SCOPED_TRACE(tool.definition.name);
    EXPECT_FALSE(twin.name.empty());
    EXPECT_TRUE(seen.insert(twin.name).second) << twin.name << " is the command of two";
    const Json& properties = tool.definition.input_schema["properties"];
    std::istringstream bare(twin.positional);
    for (std::string property; bare >> property;) {
      EXPECT_TRUE(properties.contains(property)) << property;
    }
    for (const auto& [property, option] : twin.options) {
      EXPECT_TRUE(properties.contains(property)) << property << " is renamed to --" << option;
    }
    for (const auto& [option, schema] : twin.extra_options.items()) {
      EXPECT_FALSE(properties.contains(option)) << option;
      EXPECT_FALSE(schema.value("description", "").empty()) << option;
    }
  }
}

// What an option of a command does, the tool does too: by the argument of that name, or by the one
// whose name the option has in its place. Only the command line has what is named here.
TEST(ToolDefinitions, AToolTakesEveryOptionOfItsCommand) {
  const std::set<std::string> only_commands = {"format",    "data_dir",  "watch",
                                               "interval",  "help",      "fail_on",
                                               "fix",       "diff_only", "allow_weaker_sandbox",
                                               "allow_gpu", "compile"};
  const std::vector<Tool> tools = AllTools();
  std::ostringstream unused;
  std::istringstream nothing;
  const AllowedRoots roots = *AllowedRoots::Create({testing::TempDir()});
  const DataFiles data = *DataFiles::Create();
  for (const Tool& tool : tools) {
    SCOPED_TRACE(tool.definition.command.name);
    std::ostringstream help;
    const CommandLineContext asked{.tools = AllTools,
                                   .resource_templates = AllResourceTemplates,
                                   .in = nothing,
                                   .out = help,
                                   .err = unused};
    std::vector<std::string> words;
    std::istringstream name(tool.definition.command.name);
    for (std::string word; name >> word;) words.push_back(word);
    words.push_back("--help");
    ASSERT_EQ(RunCommandLine(words, asked), 0);
    const std::string text = help.str();
    const std::regex option("(^|[ ,])--([a-z][a-z0-9-]+)");
    int found = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      // An option stands at the beginning of its line, with its aliases; what follows are words.
      const size_t dash = line.find_first_not_of(' ');
      if (dash == std::string::npos || line[dash] != '-') continue;
      const std::string names = line.substr(dash, line.find("  ", dash) - dash);
      for (std::sregex_iterator it(names.begin(), names.end(), option), end; it != end; ++it) {
        std::string property = (*it)[2];
        std::replace(property.begin(), property.end(), '-', '_');
        if (only_commands.contains(property)) continue;
        if (property.starts_with("no_")) property.erase(0, 3);
        // An argument that it knows may be null, which is as if it was not given.
        ToolContext call{.roots = roots, .data = data, .cancel = {}, .progress = nullptr};
        const auto answer = CallTool(tool, {{property, nullptr}, {"no such", 1}}, call);
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().message.find("argument `" + property + "`"), std::string::npos)
            << answer.error().message;
        ++found;
      }
    }
    EXPECT_GT(found, 0) << text;
  }
}

TEST(ToolDefinitions, EveryToolHasTests) {
  for (const Tool& tool : AllTools()) {
    const std::string& name = tool.definition.name;
    const bool tested = std::any_of(Tree().begin(), Tree().end(), [&](const SourceFile& file) {
      return file.path.starts_with("tests/") && !file.path.starts_with("tests/checks/") &&
             (file.path.find("_test.") != std::string::npos ||
              file.path.find("test_") != std::string::npos) &&
             (file.text.find("\"" + name + "\"") != std::string::npos ||
              file.text.find(name + "::") != std::string::npos ||
              file.text.find("tools/" + name + "/") != std::string::npos);
    });
    EXPECT_TRUE(tested) << "no test below tests/ speaks of " << name;
  }
}

TEST(ToolDefinitions, AreAsTheSnapshotsSay) {
  const std::string folder = std::string(MPNANNY_SOURCE_DIR) + "/tests/snapshots/tools/";
  const bool update = std::getenv("UPDATE_SNAPSHOTS") != nullptr;
  std::set<std::string> expected;
  for (const Tool& tool : AllTools()) {
    const std::string path = "tests/snapshots/tools/" + tool.definition.name + ".json";
    expected.insert(path);
    const std::string now = DumpJsonPretty(Snapshot(tool.definition)) + "\n";
    if (update) {
      std::ofstream(folder + tool.definition.name + ".json") << now;
      continue;
    }
    const SourceFile* const snapshot = FindFile(path);
    EXPECT_TRUE(snapshot)
        << path << " is missing: run `UPDATE_SNAPSHOTS=1 checks_test` and look at what it wrote";
    if (snapshot) {
      EXPECT_EQ(snapshot->text, now) << "if that is meant: UPDATE_SNAPSHOTS=1 checks_test";
    }
  }
  if (update) return;
  for (const SourceFile& file : Tree()) {
    if (file.path.starts_with("tests/snapshots/tools/")) {
      EXPECT_TRUE(expected.contains(file.path)) << file.path << " belongs to no tool";
    }
  }
}

}  // namespace
}  // namespace mpnanny::checks
