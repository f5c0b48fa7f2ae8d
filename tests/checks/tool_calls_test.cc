// What holds for every tool, whatever it does: it ends when it is told to, its results fit its
// output schema and a model's window, and wrong arguments get an error that says something.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "engines/json_schema.h"
#include "monitor/core/recorder.h"
#include "tests/checks/tree.h"
#include "tools/call.h"
#include "tools/tool.h"

namespace mpnanny::checks {
namespace {

class EveryTool : public ::testing::Test {
 protected:
  EveryTool() {
    namespace fs = std::filesystem;
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/empty");
    std::ofstream(folder_ + "/train.py")
        << "import torch\nfor x in y:\n    loss = torch.softmax(x.half(), -1).log()\n";
    std::ofstream(folder_ + "/broken.py") << "def f(:\n";
    std::ofstream(folder_ + "/not_a_database.db") << "SQLite format 3? No.";
    std::ofstream(folder_ + "/bytes.bin") << std::string("\x00\xff\xfe\x80", 4);
    std::ofstream(folder_ + "/x.npy")
        << "\x93NUMPY\x01" << '\0' << "\x3a" << '\0'
        << "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
        << "abcdefgh";
    RecordRun(folder_ + "/run.db");
    roots_.emplace(*AllowedRoots::Create({folder_}));
  }

  // A real run, by the monitor's own recorder: 60 layers, the fourth gives inf from step 30 on.
  static void RecordRun(const std::string& path) {
    RecorderOptions options;
    options.path = path;
    options.run.name = "every tool";
    options.run.started_at = 1.7e9;
    options.run.precision = Precision::kFp16;
    options.run.trace_interval = 10;
    options.run.environment = "{}";
    auto recorder = Recorder::Open(std::move(options));
    ASSERT_TRUE(recorder) << recorder.error().Text();
    constexpr int64_t kLayers = 60;
    for (int64_t i = 1; i <= kLayers; ++i) {
      LayerRow layer;
      layer.name = "blocks." + std::to_string(i) + ".mlp.projection";
      layer.type = "Linear";
      ASSERT_EQ((*recorder)->AddLayer(layer, true), i);
    }
    std::vector<float> good(64, 0.5F);
    std::vector<float> bad(64, std::numeric_limits<float>::infinity());
    const std::vector<int64_t> shape = {64};
    const auto view = [&](const std::vector<float>& data) {
      return TensorView{data.data(), DType::kFloat32, shape, {}};
    };
    for (int64_t step = 0; step < 40; ++step) {
      (*recorder)->BeginStep(step);
      for (int64_t i = 1; i <= kLayers; ++i) {
        const TensorView in = view(step >= 30 && i > 4 ? bad : good);
        const TensorView out = view(step >= 30 && i >= 4 ? bad : good);
        if ((*recorder)->Observe(i, {&in, 1}, {&out, 1}))
          (*recorder)->Explain(i, {&in, 1}, {&out, 1}, {});
      }
      StepEnd end;
      end.at = 1.7e9 + static_cast<double>(step);
      end.loss = step >= 30 ? std::numeric_limits<double>::quiet_NaN()
                            : 1.0 / static_cast<double>(step + 1);
      end.scale = 65536;
      (*recorder)->EndStep(end);
    }
    ASSERT_TRUE((*recorder)->Close("closed"));
  }

  ToolContext Context(CancelToken cancel = {}) const {
    return {.roots = *roots_, .data = data_, .cancel = std::move(cancel), .progress = nullptr};
  }

  // Values that a property of this schema may be given, good and bad ones.
  std::vector<Json> Values(const Json& schema) const {
    std::vector<Json> values;
    if (schema.contains("enum")) {
      for (const Json& choice : schema["enum"]) values.push_back(choice);
    }
    const Json type = schema.value("type", Json("string"));
    if (type == "boolean") return {true, false, "perhaps"};
    if (type == "integer" || type == "number")
      return {0, 1, -1, 1e300, "7", "nan", 9007199254740993};
    if (type == "array") {
      const Json items = schema.value("items", Json::object());
      if (items.value("type", "") == "object") {
        return {Json::array(), Json::array({Json::object()}),
                Json::array(
                    {{{"path", "a.py"}, {"text", "import torch\nx = torch.zeros(1).half()\n"}}})};
      }
      values = {Json::array()};
      for (const Json& item : Values(items)) values.push_back(Json::array({item}));
      return values;
    }
    for (const char* word : {"",
                             "x",
                             "loss is nan",
                             "溢出",
                             "*",
                             "1..2",
                             "9..1",
                             "\x1b[31m\xE2\x80\xAE",
                             "../../../etc/passwd",
                             "train.py",
                             "broken.py",
                             "not_a_database.db",
                             "not_a_database.db#1",
                             "bytes.bin",
                             "x.npy",
                             "empty",
                             ".",
                             "/",
                             "missing",
                             "nan loss at step 12",
                             "import torch\nx.half()\n"}) {
      values.emplace_back(word);
    }
    values.emplace_back(std::string(20000, 'a'));
    return values;
  }

  // Calls with nothing, then with each property's values while the required ones hold something
  // plausible.
  std::vector<Json> Calls(const Tool& tool) const {
    const Json& properties = tool.definition.input_schema["properties"];
    std::vector<Json> bases = {Json::object()};
    for (const char* plausible : {"train.py", "run.db", "loss is nan", "."}) {
      Json base = Json::object();
      for (const Json& required : tool.definition.input_schema.value("required", Json::array())) {
        base[required.get<std::string>()] = plausible;
      }
      if (base.empty() && !tool.definition.command.positional.empty()) {
        base[tool.definition.command.positional] = plausible;
      }
      bases.push_back(base);
    }
    std::vector<Json> calls = bases;
    for (const auto& [name, property] : properties.items()) {
      for (const Json& value : Values(property)) {
        for (const Json& base : bases) {
          Json call = base;
          call[name] = value;
          calls.push_back(std::move(call));
        }
      }
    }
    return calls;
  }

  // One folder a test: ctest runs them at the same time.
  std::string folder_ = ::testing::TempDir() + "every_tool_" +
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::optional<AllowedRoots> roots_;
  DataFiles data_ = *DataFiles::Create();
};

void ExpectGoodError(const Error& error, const std::string& call) {
  EXPECT_NE(error.kind, ErrorKind::kInternal) << call << ": " << error.Text();
  EXPECT_GE(error.message.size(), 10u) << call;
  EXPECT_LE(error.Text().size(), 2500u) << call << ": " << error.Text();
  EXPECT_EQ(error.Text().find('\x1b'), std::string::npos) << call;
  EXPECT_TRUE(IsUtf8(error.Text())) << call;
}

// A text that sends a model to a tool which is not there costs it a call.
void ExpectOnlyRealTools(const std::string& text, const std::string& call) {
  static const std::vector<std::string> missing = [] {
    std::vector<std::string> names = {"static_check",     "analyze_tensor",  "auto_diff",
                                      "list_runs",        "run_summary",     "diagnose_run",
                                      "query_alerts",     "query_stats",     "compare_runs",
                                      "search_knowledge", "compare_logprobs"};
    for (const Tool& tool : AllTools()) std::erase(names, tool.definition.name);
    return names;
  }();
  for (const std::string& name : missing) {
    EXPECT_EQ(text.find(name), std::string::npos)
        << call << " speaks of " << name << ", which is not there: " << text;
  }
}

TEST_F(EveryTool, AnswersFitTheOutputSchemaAndTheWindowAndErrorsSaySomething) {
  for (const Tool& tool : AllTools()) {
    int answered = 0;
    int refused = 0;
    for (const Json& arguments : Calls(tool)) {
      const std::string call = tool.definition.name + " " + DumpJson(arguments).substr(0, 160);
      const Result<ToolOutput> output = CallTool(tool, arguments, Context());
      if (!output) {
        ++refused;
        ExpectGoodError(output.error(), call);
        ExpectOnlyRealTools(output.error().Text(), call);
        continue;
      }
      ++answered;
      const auto fits =
          ValidateAgainstSchema(tool.definition.output_schema, output->structured, "result");
      EXPECT_TRUE(fits) << call << ": " << (fits ? "" : fits.error().message);
      const bool widened = arguments.value("detail", Json()) == "full";
      const size_t most = widened ? 8 * kAnswerBytes : kAnswerBytes;
      EXPECT_LE(DumpJson(output->structured).size(), most) << call;
      EXPECT_LE(output->text.size(), most) << call;
      EXPECT_FALSE(output->text.empty()) << call;
      EXPECT_TRUE(IsUtf8(output->text)) << call;
      ExpectOnlyRealTools(output->text, call);
    }
    if (!tool.definition.runs_code) {
      EXPECT_GT(answered, 0) << tool.definition.name << " answers nothing";
    }
    EXPECT_GT(refused, 0) << tool.definition.name << " takes anything";
    std::printf("%-18s %4d answers %4d errors\n", tool.definition.name.c_str(), answered, refused);
  }
}

TEST_F(EveryTool, SurvivesACancelledAndAnExpiredContext) {
  for (const Tool& tool : AllTools()) {
    for (const bool expired : {false, true}) {
      const CancelSource source = expired ? CancelSource(std::chrono::seconds(-1)) : CancelSource();
      if (!expired) source.Cancel();
      for (const Json& arguments : Calls(tool)) {
        // Past the argument check: what the handler itself does with a call that is already over.
        if (!ValidateAgainstSchema(tool.definition.input_schema, arguments, "")) continue;
        const Result<ToolOutput> output = tool.run(arguments, Context(source.token()));
        const std::string call = tool.definition.name + " " + DumpJson(arguments).substr(0, 160);
        if (output) {
          EXPECT_TRUE(
              ValidateAgainstSchema(tool.definition.output_schema, output->structured, "result"))
              << call;
        } else {
          ExpectGoodError(output.error(), call);
        }
      }
    }
  }
}

TEST_F(EveryTool, DoesNotReadOutsideItsRoots) {
  const std::string outside = ::testing::TempDir() + "every_tool_outside.py";
  std::ofstream(outside) << "import torch\nMAGIC_OUTSIDE = torch.zeros(1).half()\n";
  for (const Tool& tool : AllTools()) {
    for (const auto& [name, property] : tool.definition.input_schema["properties"].items()) {
      for (const Json& value :
           {Json(outside), Json(outside + "#1"), Json("../every_tool_outside.py")}) {
        Json arguments = Json::object();
        for (const Json& required : tool.definition.input_schema.value("required", Json::array())) {
          arguments[required.get<std::string>()] = value;
        }
        arguments[name] = value;
        const Result<ToolOutput> output = CallTool(tool, arguments, Context());
        const std::string told =
            output ? output->text + DumpJson(output->structured) : output.error().Text();
        EXPECT_EQ(told.find("MAGIC_OUTSIDE"), std::string::npos)
            << tool.definition.name << " " << arguments.dump();
      }
    }
  }
}

}  // namespace
}  // namespace mpnanny::checks
