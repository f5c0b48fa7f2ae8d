// Every tool's definition: complete, short, honest about other tools, and as the snapshot says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/checks/tree.h"
#include "tools/tool.h"

namespace mpnanny::checks {
namespace {

constexpr size_t kMostDescription = 600;
constexpr size_t kMostFirstSentence = 250;  // all that tool search shows of a tool
// About 5.6k tokens, 510 a tool, spent in every conversation of every user. Clients give models name,
// description and input schema; the output schema costs only bytes on the wire.
constexpr size_t kMostModelBytes = 22500;
constexpr size_t kMostListBytes = 54000;

// Every name of docs/architecture.md; a description may only send a model to those that exist.
const std::set<std::string> kAllNames = {
    "static_check", "analyze_tensor", "auto_diff",   "choose_precision", "list_runs",    "run_summary",
    "diagnose_run", "query_alerts",   "query_stats", "compare_runs",     "search_knowledge"};

// What tools/list sends of a tool.
Json Listed(const ToolDefinition& definition) {
  return {{"name", definition.name},
          {"title", definition.title},
          {"description", definition.description},
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
    const size_t sentence = definition.description.find(". ");
    const std::string first = definition.description.substr(0, sentence);
    EXPECT_GE(first.size(), 20u);
    EXPECT_LE(first.size(), kMostFirstSentence) << "the first sentence must stand alone";
    for (const char* lone : {"It ", "This ", "See "})
      EXPECT_FALSE(first.starts_with(lone)) << first;
    EXPECT_TRUE(definition.description.ends_with(".")) << definition.description;
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

TEST(ToolDefinitions, TheListStaysSmall) {
  size_t model = 0;
  size_t total = 0;
  for (const Tool& tool : AllTools()) {
    const ToolDefinition& definition = tool.definition;
    const size_t shown = definition.name.size() + definition.description.size() +
                         DumpJson(definition.input_schema).size();
    const size_t bytes = DumpJson(Listed(definition)).size();
    std::printf("%-18s %6zu bytes, %5zu of them for the model\n", definition.name.c_str(), bytes,
                shown);
    model += shown;
    total += bytes;
  }
  std::printf("tools/list         %6zu bytes of %zu, %zu of %zu for the model\n", total,
              kMostListBytes, model, kMostModelBytes);
  RecordProperty("tools_list_bytes", static_cast<int>(total));
  EXPECT_LE(model, kMostModelBytes);
  EXPECT_LE(total, kMostListBytes);
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
