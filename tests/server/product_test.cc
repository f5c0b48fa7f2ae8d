// What the product's own registry offers: every prompt, tool and resource family is whole and fits
// the others.
#include "server/product.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "base/front_matter.h"
#include "server/methods/resource_uri.h"
#include "server/prompts/prompt_file.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

const DataFiles& Data() {
  static const DataFiles data = *DataFiles::Create();
  return data;
}
const AllowedRoots& Roots() {
  static const AllowedRoots roots = *AllowedRoots::Create({MPNANNY_SOURCE_DIR});
  return roots;
}

Registry Product() { return ProductRegistry({Roots(), Data()}); }

std::vector<std::string> PromptPaths() {
  std::vector<std::string> paths;
  for (const std::string& path : Data().List("prompts/", ".md")) {
    if (!path.ends_with("/README.md") && !path.ends_with(".zh.md")) paths.push_back(path);
  }
  return paths;
}

class ProductPrompt : public testing::TestWithParam<std::string> {};

TEST_P(ProductPrompt, IsWhole) {
  const std::string_view text = *Data().Read(GetParam());
  const auto prompt = ParsePrompt(text, GetParam());
  ASSERT_TRUE(prompt) << prompt.error().Text();

  // The example fills every required argument and is free of unknown ones; the text it makes has no
  // gap left.
  const auto file = ParseFrontMatter(text, GetParam());
  ASSERT_TRUE(file->fields.contains("example"));
  std::map<std::string, std::string> example;
  std::set<std::string> declared;
  for (const auto& [key, value] : file->fields["example"].items())
    example[key] = value.get<std::string>();
  for (const PromptArgument& argument : prompt->arguments) {
    declared.insert(argument.name);
    EXPECT_TRUE(!argument.required || example.contains(argument.name)) << argument.name;
    EXPECT_TRUE(argument.values.empty() || argument.completed_by.empty()) << argument.name;
    EXPECT_FALSE(argument.values.empty() && argument.completed_by.empty())
        << argument.name << " has no completion";
  }
  for (const auto& [key, value] : example) EXPECT_TRUE(declared.contains(key)) << key;
  TestServer server(Product());
  const Json answer = server.client.Ask(
      ModernRequest(1, "prompts/get", {{"name", prompt->name}, {"arguments", example}}));
  const Json messages = answer["result"]["messages"];
  const std::string filled = messages[0]["content"]["text"];
  EXPECT_EQ(filled.find("{{"), std::string::npos);
  for (const auto& [key, value] : example) EXPECT_NE(filled.find(value), std::string::npos) << key;
}

// `name` in backticks with an underscore, or before "with", is a tool; mpnanny://… is a resource
// template.
TEST_P(ProductPrompt, NamesToolsAndResourcesThatExist) {
  const Registry registry = Product();
  const std::string text(*Data().Read(GetParam()));
  std::set<std::string> tools;
  for (const ServedTool& tool : registry.tools) tools.insert(tool.definition.name);
  std::set<std::string> templates;
  for (const ResourceTemplate& family : registry.resources) templates.insert(family.uri_template);
  const std::set<std::string> fields = {"next_measurement"};  // of a tool's answer

  int named = 0;
  const std::regex tool_name("`([a-z]+_[a-z_]+)`");
  for (std::sregex_iterator it(text.begin(), text.end(), tool_name), end; it != end; ++it) {
    const std::string name = (*it)[1];
    if (fields.contains(name)) continue;
    EXPECT_TRUE(tools.contains(name)) << name;
    ++named;
  }
  EXPECT_GT(named, 0) << "a prompt that uses no tool of ours";
  const std::regex uri("`(mpnanny://[^`]*)`");
  for (std::sregex_iterator it(text.begin(), text.end(), uri), end; it != end; ++it) {
    EXPECT_TRUE(templates.contains((*it)[1])) << (*it)[1];
  }
  const auto prompt = ParsePrompt(text, GetParam());
  for (const PromptArgument& argument : prompt->arguments) {
    if (argument.completed_by.empty() || argument.completed_by == "path") continue;
    const bool known =
        std::any_of(registry.resources.begin(), registry.resources.end(), [&](const auto& family) {
          return family.variable == argument.completed_by && family.list;
        });
    EXPECT_TRUE(known) << "nothing completes '" << argument.completed_by << "'";
  }
}

// Every prompt has a Chinese text that names the same tools and resources, and `language` chooses.
TEST_P(ProductPrompt, IsThereInChinese) {
  const std::string path = GetParam().substr(0, GetParam().size() - 3) + ".zh.md";
  const auto chinese = Data().Read(path);
  ASSERT_TRUE(chinese) << path;
  const std::regex code("`([^`]+)`");
  const auto names = [&](const std::string& text) {
    std::set<std::string> found;
    const std::regex tool("[a-z]+_[a-z_]+|mpnanny://.*");
    for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it) {
      if (std::regex_match((*it)[1].str(), tool)) found.insert((*it)[1]);
    }
    return found;
  };
  EXPECT_EQ(names(std::string(*chinese)), names(std::string(*Data().Read(GetParam()))));

  const auto file = ParseFrontMatter(*Data().Read(GetParam()), GetParam());
  Json arguments = file->fields["example"];
  arguments["language"] = "zh";
  TestServer server(Product());
  const Json answer = server.client.Ask(ModernRequest(
      1, "prompts/get",
      {{"name", std::filesystem::path(GetParam()).stem().string()}, {"arguments", arguments}}));
  const std::string filled = answer["result"]["messages"][0]["content"]["text"];
  EXPECT_EQ(filled.find("{{"), std::string::npos);
  EXPECT_NE(filled.find("。"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, ProductPrompt, testing::ValuesIn(PromptPaths()),
                         [](const auto& each) {
                           return std::filesystem::path(each.param).stem().string();
                         });

TEST(Product, InstructionsNameAllToolsAndNoOthersAndFit) {
  const Registry registry = Product();
  EXPECT_LE(registry.instructions.size(), 2048u);
  std::set<std::string> tools;
  for (const ServedTool& tool : registry.tools) tools.insert(tool.definition.name);
  const std::regex name("\\b[a-z]+_[a-z]+\\b");
  for (std::sregex_iterator it(registry.instructions.begin(), registry.instructions.end(), name),
       end;
       it != end; ++it) {
    EXPECT_TRUE(tools.contains(it->str())) << it->str();
  }
  for (const std::string& tool : tools) {
    EXPECT_NE(registry.instructions.find(tool), std::string::npos) << tool << " is not named";
  }
}

TEST(Product, ToolDefinitionsAreWholeAndInAFixedOrder) {
  const Registry registry = Product();
  ASSERT_FALSE(registry.tools.empty());
  std::vector<std::string> names;
  for (const ServedTool& tool : registry.tools) {
    const ToolDefinition& definition = tool.definition;
    names.push_back(definition.name);
    EXPECT_TRUE(std::regex_match(definition.name, std::regex("[a-z_]{1,64}"))) << definition.name;
    EXPECT_FALSE(definition.title.empty()) << definition.name;
    EXPECT_LE(definition.description.size(), 600u) << definition.name;
    EXPECT_EQ(definition.input_schema.value("type", ""), "object") << definition.name;
    EXPECT_EQ(definition.output_schema.value("type", ""), "object") << definition.name;
    EXPECT_EQ(definition.input_schema.value("additionalProperties", true), false)
        << definition.name;
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()))
      << "clients cache prompts by the order of tools";
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

// Every conversation of every user begins with it.
constexpr size_t kMostListBytes = 16 * 1024;

TEST(Product, TheListOfToolsStaysSmallInEveryRevision) {
  std::vector<std::pair<std::string, size_t>> sizes;
  {
    TestServer server(Product());
    const Json answer = server.client.Ask(ModernRequest(1, "tools/list"));
    ASSERT_EQ(answer["result"]["tools"].size(), Product().tools.size());
    sizes.emplace_back("2026-07-28", DumpJson(answer).size());
  }
  for (const char* revision : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}) {
    TestServer server(Product());
    server.Initialize(revision);
    sizes.emplace_back(revision, DumpJson(server.client.Ask(Request(1, "tools/list"))).size());
  }
  for (const auto& [revision, bytes] : sizes) {
    std::printf("tools/list in %s: %zu bytes of %zu\n", revision.c_str(), bytes, kMostListBytes);
    EXPECT_LE(bytes, kMostListBytes) << revision;
  }
}

// What is listed in brief lacks no argument, takes all that the tool takes, and leads to the whole.
TEST(Product, TheListOfToolsNamesEveryArgument) {
  const Registry registry = Product();
  TestServer server(Product());
  const Json list = server.client.Ask(ModernRequest(1, "tools/list"))["result"]["tools"];
  for (size_t i = 0; i < registry.tools.size(); ++i) {
    const ToolDefinition& whole = registry.tools[i].definition;
    SCOPED_TRACE(whole.name);
    const Json& listed = list[i];
    EXPECT_EQ(listed["name"], whole.name);
    EXPECT_FALSE(whole.brief.empty()) << "every word of it is listed";
    const Json& input = listed["inputSchema"];
    EXPECT_EQ(input.value("required", Json()), whole.input_schema.value("required", Json()));
    EXPECT_EQ(input["properties"].size(), whole.input_schema["properties"].size());
    const std::string page = server.client.Ask(
        ModernRequest(2, "resources/read",
                      {{"uri", "mpnanny://tools/" + whole.name}}))["result"]["contents"][0]["text"];
    EXPECT_NE(page.find(whole.description), std::string::npos);
    for (const auto& [name, property] : whole.input_schema["properties"].items()) {
      ASSERT_TRUE(input["properties"].contains(name)) << name;
      const Json& brief = input["properties"][name];
      EXPECT_EQ(brief.value("type", Json()), property.value("type", Json())) << name;
      if (brief.contains("enum")) EXPECT_EQ(brief["enum"], property["enum"]) << name;
      EXPECT_NE(page.find(property["description"].get<std::string>()), std::string::npos) << name;
    }
    for (const auto& [name, unused] : whole.brief_arguments) {
      EXPECT_TRUE(whole.input_schema["properties"].contains(name)) << name;
    }
    EXPECT_EQ(listed["outputSchema"]["type"], "object");
    for (const auto& [name, brief] : listed["outputSchema"]["properties"].items()) {
      const Json& field = whole.output_schema["properties"][name];
      EXPECT_EQ(brief.value("type", Json()), field.value("type", Json())) << name;
    }
    EXPECT_NE(page.find(DumpJsonPretty(whole.output_schema)), std::string::npos);
  }
}

// 200 cases, rules and alerts are found by their index, by completion and by search_knowledge.
TEST(Product, FewResourcesAreListedAndAllCanBeRead) {
  const Registry registry = Product();
  TestServer server(Product());
  server.Initialize();
  const Json listed = server.client.Ask(Request(1, "resources/list"))["result"];
  EXPECT_FALSE(listed.contains("nextCursor"));
  EXPECT_LE(listed["resources"].size(), 20u) << DumpJson(listed);
  const AllowedRoots none = *AllowedRoots::Create({testing::TempDir()});
  const ToolContext context{.roots = none, .data = Data(), .cancel = {}, .progress = nullptr};
  size_t indexes = 0;
  for (const ResourceTemplate& family : registry.resources) {
    if (!family.list || !family.is_public) continue;
    SCOPED_TRACE(family.uri_template);
    const auto read = [&](const std::string& value) {
      const Json answer =
          server.client.Ask(Request(1, "resources/read", {{"uri", ResourceUri(family, value)}}));
      if (!answer.contains("result")) return DumpJson(answer).insert(0, "failed: ");
      return answer["result"]["contents"][0]["text"].get<std::string>();
    };
    const auto entries = family.list(context);
    const bool has_index =
        std::any_of(listed["resources"].begin(), listed["resources"].end(),
                    [&](const Json& each) { return each["uri"] == ResourceUri(family, "index"); });
    EXPECT_EQ(has_index, entries.size() > family.most_listed);
    indexes += has_index ? 1 : 0;
    const std::string index = has_index ? read("index") : "";
    for (const ResourceTemplate::Entry& entry : entries) {
      EXPECT_FALSE(read(entry.value).starts_with("failed: ")) << entry.value;
      if (has_index) EXPECT_NE(index.find("`" + entry.value + "`: "), std::string::npos);
      EXPECT_NE(entry.value, "index");
    }
  }
  EXPECT_EQ(indexes, 4u) << "cases, rules, alerts, tools";
}

TEST(Product, EveryListedResourceCanBeRead) {
  TestServer server(Product());
  server.Initialize();
  Json params = Json::object();
  size_t read = 0;
  while (true) {
    Json page = server.client.Ask(Request("list", "resources/list", params));
    for (const Json& resource : page["result"]["resources"]) {
      Json answer = server.client.Ask(Request(1, "resources/read", {{"uri", resource.at("uri")}}));
      EXPECT_FALSE(answer["result"]["contents"][0].value("text", "").empty()) << DumpJson(resource);
      EXPECT_FALSE(resource.at("title").get<std::string>().empty());
      ++read;
    }
    if (!page["result"].contains("nextCursor")) break;
    params["cursor"] = page["result"]["nextCursor"];
  }
  EXPECT_EQ(read > 0, !Data().List("knowledge/cases/", ".md").empty());
}

TEST(Product, PathsAreCompletedInsideTheRootsOnly) {
  TestServer server(Product());
  server.Initialize();
  const auto complete = [&](const std::string& typed) {
    Json answer =
        server.client.Ask(Request(1, "completion/complete",
                                  {{"ref", {{"type", "ref/prompt"}, {"name", "review_model_code"}}},
                                   {"argument", {{"name", "path"}, {"value", typed}}}}));
    return answer["result"]["completion"]["values"];
  };
  EXPECT_EQ(complete("server/stdio_"),
            Json::array({"server/stdio_server.cc", "server/stdio_server.h"}));
  EXPECT_EQ(complete("serve"), Json::array({"server/"}));
  EXPECT_EQ(complete("../"), Json::array());
  EXPECT_EQ(complete("/etc/"), Json::array());
  EXPECT_EQ(complete("no/such/folder/"), Json::array());
}

}  // namespace
}  // namespace mpnanny
