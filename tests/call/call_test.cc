// CallTool: what is taken, what is refused and with which words. The tool is made here; it answers
// its own arguments.
#include "tools/call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engines/json_schema.h"

namespace mpnanny {
namespace {

Json Schema() {
  return *ParseJson(R"({
    "type": "object", "additionalProperties": false,
    "required": ["path"],
    "properties": {
      "path": {"type": "string", "description": "p"},
      "steps": {"type": "string", "description": "a range"},
      "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 20, "description": "n"},
      "share": {"type": "number", "description": "s"},
      "strict": {"type": "boolean", "default": false, "description": "b"},
      "severity": {"enum": ["error", "warning", "info"], "default": "info", "description": "e"},
      "layers": {"type": "array", "items": {"type": "string"}, "description": "l"},
      "files": {"type": "array", "description": "f", "items": {"type": "object", "required": ["path", "text"],
        "additionalProperties": false,
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}}
    }})");
}

Tool EchoTool(Json schema = Schema()) {
  Tool tool;
  tool.definition.name = "echo";
  tool.definition.input_schema = std::move(schema);
  tool.definition.output_schema = {{"type", "object"}};
  tool.run = [](const Json& arguments, const ToolContext&) -> Result<ToolOutput> {
    return ToolOutput{arguments, "echo"};
  };
  return tool;
}

class CallToolTest : public ::testing::Test {
 protected:
  Result<ToolOutput> Call(const Tool& tool, const std::string& arguments) {
    return CallTool(tool, *ParseJson(arguments), context_);
  }
  // The echoed arguments, or the error's text.
  std::string Taken(const std::string& arguments) {
    const auto output = Call(tool_, arguments);
    return output ? DumpJson(output->structured) : output.error().Text();
  }

  AllowedRoots roots_ = AllowedRoots::Unrestricted();
  DataFiles data_ = *DataFiles::Create();
  CancelSource source_;
  ToolContext context_{
      .roots = roots_, .data = data_, .cancel = source_.token(), .progress = nullptr};
  Tool tool_ = EchoTool();
};

TEST_F(CallToolTest, FillsInDefaults) {
  EXPECT_EQ(Taken(R"({"path":"a"})"),
            R"({"path":"a","limit":20,"strict":false,"severity":"info"})");
}

TEST_F(CallToolTest, TakesWhatModelsSendWhereItsMeaningIsPlain) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"limit":"42"})", R"("limit":42)"},
      {R"({"limit":42.0})", R"("limit":42)"},
      {R"({"limit":"42.0"})", R"("limit":42)"},
      {R"({"share":"0.5"})", R"("share":0.5)"},
      {R"({"share":"1e-3"})", R"("share":0.001)"},
      {R"({"strict":"True"})", R"("strict":true)"},
      {R"({"severity":"ERROR"})", R"("severity":"error")"},
      {R"({"steps":100})", R"("steps":"100")"},
      {R"({"layers":"fc1"})", R"("layers":["fc1"])"},
      {R"({"layers":"[\"a\",\"b\"]"})", R"("layers":["a","b"])"},
      {R"({"layers":[3]})", R"("layers":["3"])"},
      {R"({"files":{"path":"m.py","text":"x"}})", R"("files":[{"path":"m.py","text":"x"}])"},
      {R"({"limit":null})", R"("limit":20)"},
      {R"({"layers":null})", R"({"path":"p","limit")"},
  };
  for (const auto& [given, expected] : cases) {
    Json arguments = {{"path", "p"}};
    arguments.update(*ParseJson(given));
    const std::string taken = Taken(DumpJson(arguments));
    EXPECT_NE(taken.find(expected), std::string::npos) << given << " became " << taken;
  }
}

// tools/list tells little of an argument; who got it wrong learns the rest.
TEST_F(CallToolTest, ExplainsTheArgumentsThatAreWrong) {
  Json schema = Schema();
  schema["properties"]["steps"]["description"] = "From where to where.";
  const auto output = Call(EchoTool(schema), R"({"path":"p","steps":{},"limit":0})");
  ASSERT_FALSE(output);
  const std::string& hint = output.error().hint;
  EXPECT_NE(hint.find("`steps`: From where to where."), std::string::npos) << hint;
  EXPECT_EQ(hint.find("`path`:"), std::string::npos) << hint;
}

// Who read the commands' help, or our own page of them, uses their words.
TEST_F(CallToolTest, TakesTheNamesThatTheCommandHas) {
  Tool tool = EchoTool();
  tool.definition.command.options = {{"path", "db"}, {"severity", "at-least"}};
  tool.definition.command.aliases = {{"steps", "step"}};
  const auto output = Call(tool, R"({"db":"a","step":400,"at_least":"error"})");
  ASSERT_TRUE(output) << output.error().Text();
  EXPECT_EQ(output->structured["path"], "a");
  EXPECT_EQ(output->structured["steps"], "400");
  EXPECT_EQ(output->structured["severity"], "error");
  const auto both = Call(tool, R"({"path":"a","db":"b"})");
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().message.find("unknown argument `db`"), std::string::npos);
}

TEST_F(CallToolTest, RefusesWhatCannotBeMeantAndSaysWhereAndWhatIsAllowed) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {R"({"limit":"many"})", {"`limit` must be an integer", "\"many\""}},
      {R"({"limit":1.5})", {"`limit` must be an integer", "1.5"}},
      {R"({"limit":"99999999999999999999"})", {"`limit` must be an integer"}},
      {R"({"limit":0})", {"`limit` must be at least 1"}},
      {R"({"limit":501})", {"`limit` must be at most 500"}},
      {R"({"share":"nan"})", {"`share` must be a number"}},
      {R"({"strict":1})", {"`strict` must be a boolean"}},
      {R"({"severity":"high"})",
       {"`severity` must be one of", "\"error\", \"warning\", \"info\"", "\"high\""}},
      {R"({"layers":[["a"]]})", {"`layers[0]` must be a string"}},
      {R"({"files":[{"path":"a","text":"x"},{"path":"b"}]})", {"`text` in `files[1]` is missing"}},
      {R"({"files":[{"path":"a","txt":"x"}]})", {"unknown argument `txt` in `files[0]`", "'text'"}},
      {R"({"path":{}})", {"`path` must be a string"}},
  };
  for (const auto& [given, words] : cases) {
    Json arguments = {{"path", "p"}};
    arguments.update(*ParseJson(given));
    const auto output = CallTool(tool_, arguments, context_);
    ASSERT_FALSE(output) << given;
    EXPECT_EQ(output.error().kind, ErrorKind::kInvalidInput);
    for (const std::string& word : words) {
      EXPECT_NE(output.error().message.find(word), std::string::npos)
          << given << " is told as: " << output.error().message;
    }
  }
}

TEST_F(CallToolTest, AnUnknownArgumentNamesTheNearestKnownOne) {
  const auto output = Call(tool_, R"({"path":"a","severty":"error"})");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, ErrorKind::kInvalidInput);
  EXPECT_NE(output.error().Text().find("`severty`. Did you mean 'severity'?"), std::string::npos)
      << output.error().Text();
  EXPECT_EQ(output.error().Text().find("?."), std::string::npos) << output.error().Text();
  EXPECT_NE(output.error().hint.find("layers"), std::string::npos) << "all names are offered";
}

TEST_F(CallToolTest, TellsAllProblemsAtOnceAndOnlyOnce) {
  const auto output = Call(tool_, R"({"limit":"x","severity":"loud","zzz":1})");
  ASSERT_FALSE(output);
  const std::string& text = output.error().message;
  for (const char* part : {"`limit`", "`severity`", "`zzz`", "`path` is missing"}) {
    const size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(part, at + 1), std::string::npos) << part << " twice: " << text;
  }
  EXPECT_EQ(text.find("additionalProperties"), std::string::npos) << text;
}

TEST_F(CallToolTest, AlternativesAreNamed) {
  Json schema = Schema();
  schema.erase("required");
  schema["anyOf"] = *ParseJson(R"([{"required":["path"]},{"required":["files"]}])");
  const auto output = Call(EchoTool(schema), R"({"limit":3})");
  ASSERT_FALSE(output);
  EXPECT_NE(output.error().message.find("give at least one of `path`, `files`"), std::string::npos)
      << output.error().message;
  EXPECT_TRUE(Call(EchoTool(schema), R"({"files":[]})"));
}

TEST_F(CallToolTest, HostileTextStaysShortAndVisible) {
  const Json arguments = {
      {"path", "p"}, {"limit", std::string(100000, 'x')}, {"\x1b[2J\xE2\x80\xAE", 1}};
  const auto output = CallTool(tool_, arguments, context_);
  ASSERT_FALSE(output);
  EXPECT_LT(output.error().Text().size(), 2000u);
  EXPECT_EQ(output.error().Text().find('\x1b'), std::string::npos);

  Json many = {{"path", "p"}};
  for (const auto& [members, count] : {std::pair(500, "488 more"), std::pair(5000, "many more")}) {
    for (int i = 0; i < members; ++i) many["unknown_" + std::to_string(i)] = i;
    const auto refused = CallTool(tool_, many, context_);
    ASSERT_FALSE(refused);
    EXPECT_LT(refused.error().Text().size(), 4000u);
    EXPECT_NE(refused.error().Text().find(count), std::string::npos) << refused.error().Text();
  }
}

TEST_F(CallToolTest, ArgumentsThatAreNoObject) {
  for (const char* arguments : {"[]", "3", "\"x\"", "true"}) {
    const auto output = Call(tool_, arguments);
    ASSERT_FALSE(output);
    EXPECT_EQ(output.error().kind, ErrorKind::kInvalidInput);
  }
}

TEST_F(CallToolTest, AnExceptionBecomesInternalWithALogIdAndWithoutItsText) {
  tool_.run = [](const Json&, const ToolContext&) -> Result<ToolOutput> {
    throw std::runtime_error("secret detail");
  };
  const auto output = Call(tool_, R"({"path":"a"})");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, ErrorKind::kInternal);
  EXPECT_NE(output.error().message.find("e-"), std::string::npos);
  EXPECT_EQ(output.error().message.find("secret"), std::string::npos);
}

TEST_F(CallToolTest, ACallThatIsOverIsNotBegun) {
  bool ran = false;
  tool_.run = [&](const Json&, const ToolContext&) -> Result<ToolOutput> {
    ran = true;
    return ToolOutput{};
  };
  source_.Cancel();
  const auto cancelled = Call(tool_, R"({"path":"a"})");
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
  context_.cancel = CancelSource(std::chrono::seconds(-1)).token();
  const auto late = Call(tool_, R"({"path":"a"})");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_FALSE(ran);
}

TEST_F(CallToolTest, ManyThreadsAndManySchemasShareTheCache) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        Json schema = Schema();  // a new address, or an old one with other contents
        schema["properties"]["limit"]["maximum"] = i;
        const Tool tool = EchoTool(schema);
        const bool taken = CallTool(tool, {{"path", "p"}, {"limit", 150}}, context_).has_value();
        if (taken != (i >= 150)) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(ValidateAgainstSchema, FollowsReferencesAndNamesThePlace) {
  const Json schema = *ParseJson(R"({"type":"object","required":["rows"],
    "$defs":{"row":{"type":"object","required":["step"],"properties":{
      "step":{"type":"integer"},"value":{"type":["number","string","null"]}}}},
    "properties":{"rows":{"type":"array","items":{"$ref":"#/$defs/row"}}}})");
  EXPECT_TRUE(
      ValidateAgainstSchema(schema, *ParseJson(R"({"rows":[{"step":1,"value":"nan"}]})"), "x"));
  EXPECT_TRUE(
      ValidateAgainstSchema(schema, *ParseJson(R"({"rows":[{"step":1,"value":null}]})"), "x"));
  const auto wrong =
      ValidateAgainstSchema(schema, *ParseJson(R"({"rows":[{"step":1},{"step":"2"}]})"), "result");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("result: `rows[1].step` must be an integer"),
            std::string::npos)
      << wrong.error().message;
  const auto boolean =
      ValidateAgainstSchema(schema, *ParseJson(R"({"rows":[{"step":1,"value":true}]})"), "x");
  EXPECT_FALSE(boolean);
}

}  // namespace
}  // namespace mpnanny
