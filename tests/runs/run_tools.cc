#include "tests/runs/run_tools.h"

#include <chrono>
#include <filesystem>
#include <fstream>

namespace mpnanny::test {
namespace fs = std::filesystem;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void HealthyRun(const std::string& path, bool wal, const std::string& ended) {
  Recording db(path, wal);
  db.Run("healthy", ended);
  const int64_t layer = db.Layer("fc");
  db.Execute("BEGIN");
  for (int64_t step = 0; step < 200; ++step) {
    db.Step(step, {.loss = 2.0 - 0.005 * static_cast<double>(step)});
    db.Stat(step, layer, {});
  }
  db.Execute("COMMIT");
}

// Found by their definitions, so that a tool that comes later is tried as well.
std::vector<RunTool> RunTools() {
  std::vector<RunTool> tools;
  for (const Tool& tool : AllTools()) {
    const ToolDefinition& definition = tool.definition;
    const Json& properties = definition.input_schema["properties"];
    Json extra = Json::object();
    if (properties.contains("metric")) extra["metric"] = "loss";
    if (properties.contains("run")) {
      tools.push_back({definition.name, [extra](const std::string& path, const std::string&) {
                         Json arguments = extra;
                         arguments["run"] = path;
                         return arguments;
                       }});
    } else if (properties.contains("a") && properties.contains("b")) {
      for (const bool first : {true, false}) {
        tools.push_back(
            {definition.name, [first](const std::string& path, const std::string& good) {
               return first ? Json{{"a", path}, {"b", good}} : Json{{"a", good}, {"b", path}};
             }});
      }
    } else if (definition.name == "list_runs") {
      tools.push_back({definition.name, [](const std::string& path, const std::string&) {
                         return Json{{"path", path}};
                       }});
    }
  }
  return tools;
}

void RunToolsTest::SetUp() {
  HealthyRun(good_.File("good.db"));
  ASSERT_GE(RunTools().size(), 4u);
}

Result<ToolOutput> RunToolsTest::Ask(const RunTool& tool, const std::string& path) {
  // The root above both folders.
  return Call(tool.name, tool.arguments(path, good_.File("good.db")),
              fs::path(folder_.path()).parent_path().string());
}

void RunToolsTest::Refused(const std::string& path, ErrorKind kind, const std::string& words,
                           bool listed_as_none) {
  for (const RunTool& tool : RunTools()) {
    SCOPED_TRACE(tool.name + " " + path);
    const auto began = std::chrono::steady_clock::now();
    auto output = Ask(tool, path);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
    if (listed_as_none && tool.name == "list_runs") {
      ASSERT_TRUE(output) << output.error().Text();
      EXPECT_EQ(output->structured["total"], 0);
      continue;
    }
    ASSERT_FALSE(output) << output->text;
    const Error& error = output.error();
    EXPECT_EQ(error.kind, kind) << error.Text();
    EXPECT_NE(error.Text().find(words), std::string::npos) << error.Text();
    EXPECT_NE(error.message.find(fs::path(path).filename().string()), std::string::npos)
        << "does not say which file: " << error.Text();
    EXPECT_FALSE(error.hint.empty()) << "does not say what to try: " << error.Text();
  }
}

std::vector<ToolOutput> RunToolsTest::Answered(const std::string& path) {
  std::vector<ToolOutput> outputs;
  for (const RunTool& tool : RunTools()) {
    SCOPED_TRACE(tool.name + " " + path);
    auto output = Ask(tool, path);
    EXPECT_TRUE(output) << output.error().Text();
    if (output) outputs.push_back(*std::move(output));
  }
  return outputs;
}

}  // namespace mpnanny::test
