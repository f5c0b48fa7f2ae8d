// What differs between two runs of one conversation: recorded from a server whose answers hold it,
// played against another one that answers otherwise in exactly those places.
#include "server/transcript/recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/random_id.h"
#include "server/transcript/pattern.h"
#include "server/transcript/replay.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

// `work` hands out a new job, told in its text as well, and knows that job again; `rates` tells
// what a process tells of itself.
Registry UnsteadyRegistry() {
  Registry registry = TestRegistry();
  const auto jobs = std::make_shared<std::vector<std::string>>();
  const auto add = [&](const std::string& name, auto answer) {
    ToolDefinition definition;
    definition.name = name;
    definition.input_schema = {{"type", "object"}};
    definition.output_schema = {{"type", "object"}};
    registry.tools.push_back(
        {definition, [answer](Json arguments, const RequestContext&) {
           const Json structured = answer(arguments);
           return MethodResult{
               {{"content", Json::array({{{"type", "text"}, {"text", structured["text"]}}})},
                {"structuredContent", structured}}};
         }});
  };
  add("work", [jobs](const Json& arguments) -> Json {
    if (arguments.contains("job")) {
      const bool known = arguments["job"] == jobs->back();
      return {{"text", known ? "done: " + jobs->back() : "no such job"}, {"known", known}};
    }
    jobs->push_back(RandomId());
    return {{"text", "Goes on as job " + jobs->back() + "."}, {"job", jobs->back()}};
  });
  add("rates", [](const Json&) -> Json {
    const std::string id = RandomId();
    return {{"text", "fixed"}, {"pid", id}, {"environment", {{"host", id}}}, {"started_at", id}};
  });
  return registry;
}

Json CallWork(int id, Json arguments) {
  return ModernRequest(id, "tools/call", {{"name", "work"}, {"arguments", std::move(arguments)}});
}

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = fs::path(::testing::TempDir()) / ("recorder_" + std::to_string(getpid()) + ".jsonl");
    fs::remove(file_);
  }
  void TearDown() override { fs::remove(file_); }

  // The text of the recording of a session in which `talk` is the client.
  template <typename Talk>
  std::string Record(const std::vector<std::string>& roots, const Talk& talk) {
    auto recorder = Recorder::Create(file_.string(), roots);
    EXPECT_TRUE(recorder) << recorder.error().Text();
    {
      StdioServerOptions options;
      options.recorder = recorder->get();
      TestServer server(UnsteadyRegistry(), options);
      talk(server.client);
      server.client.CloseInput();
      server.Join();
    }
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }

  fs::path file_;
};

TEST_F(RecorderTest, HandlesAreNamedAndSentBackUnderTheirNewValue) {
  std::string job;
  const std::string text = Record({}, [&](PipeClient& client) {
    job = client.Ask(CallWork(1, Json::object()))["result"]["structuredContent"]["job"];
    const Json done = client.Ask(CallWork(2, {{"job", job}}));
    EXPECT_EQ(done["result"]["structuredContent"]["known"], true);
  });
  EXPECT_EQ(text.find(job), std::string::npos) << text;
  EXPECT_NE(text.find(R"("job":{"$any":true,"$as":"job1"})"), std::string::npos) << text;
  EXPECT_NE(text.find("Goes on as job ${job1}."), std::string::npos) << text;
  const auto report = Replay(UnsteadyRegistry(), text, {});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->sent, 2);
  EXPECT_EQ(report->compared, 2);
  EXPECT_EQ(report->differences, std::vector<std::string>{});
}

TEST_F(RecorderTest, WhatAProcessTellsOfItselfIsNotCompared) {
  const std::string text = Record({}, [](PipeClient& client) {
    client.Ask(ModernRequest(1, "tools/call", {{"name", "rates"}}));
    client.Ask(ModernRequest(2, "tools/call", {{"name", "throw_exception"}}));
  });
  const auto report = Replay(UnsteadyRegistry(), text, {});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->compared, 2);
  EXPECT_EQ(report->differences, std::vector<std::string>{}) << text;
  // The rest is: another text is told.
  std::string changed = text;
  for (size_t at = 0; (at = changed.find("\"fixed\"", at)) != std::string::npos; at += 7) {
    changed.replace(at, 7, "\"other\"");
  }
  const auto told = Replay(UnsteadyRegistry(), changed, {});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->differences.size(), 2u) << "in content and in structuredContent";
}

TEST_F(RecorderTest, RootsAreNamedAlsoInsideTextsAndUris) {
  const auto echo = [](int id, const std::string& text) {
    return ModernRequest(id, "tools/call", {{"name", "echo"}, {"arguments", {{"text", text}}}});
  };
  const std::string text = Record({"/data/a", "/data/a/b"}, [&](PipeClient& client) {
    client.Ask(echo(1, "see /data/a/b/c.py and /data/a, not /data/ab"));
    client.Ask(echo(2, "mpnanny://runs/%2Fdata%2Fa%2Fm.db%231/summary"));
  });
  EXPECT_NE(text.find("see ${root2}/c.py and ${root}, not /data/ab"), std::string::npos) << text;
  EXPECT_NE(text.find("mpnanny://runs/${root:uri}%2Fm.db"), std::string::npos) << text;
  const auto report = Replay(UnsteadyRegistry(), text, {.roots = {"/else/x y", "/else/z"}});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->differences, std::vector<std::string>{});
}

TEST_F(RecorderTest, WhatTheClientSaysComesBackByteForByte) {
  const std::string odd = "\xff\xfe \"${root}\" /data/a";
  const std::string text = Record({"/data/a"}, [&](PipeClient& client) {
    int id = 0;
    for (const char* said : {"${root}", "$${root} ${$}{ ${", "/data/a/${root}/${job1}"}) {
      client.Ask(
          ModernRequest(++id, "tools/call", {{"name", "echo"}, {"arguments", {{"text", said}}}}));
    }
    client.SendLine("\"${root}\"");
    client.Read();
    client.SendLine(odd);
    client.Read();
  });
  EXPECT_NE(text.find("${root}/${$}{root}/${$}{job1}"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"raw_base64":"//4gIiR7cm9vdH0iIC9kYXRhL2E="})"), std::string::npos)
      << text;
  const auto report = Replay(UnsteadyRegistry(), text, {.roots = {"/elsewhere"}});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->sent, 5);
  EXPECT_EQ(report->compared, 5);
  EXPECT_EQ(report->differences, std::vector<std::string>{}) << text;
  const auto bad =
      Replay(UnsteadyRegistry(), "{\"about\":1}\n{\"raw_base64\":\"?\"}\n{\"end\":true}\n", {});
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("line 2: "), std::string::npos) << bad.error().message;
}

TEST_F(RecorderTest, ASilentServerIsNotWaitedForForEver) {
  const std::string text = R"({"about": "nobody answers a notification"}
{"send": {"jsonrpc": "2.0", "method": "notifications/initialized"}}
{"expect": {"id": 1}}
{"expect": {"id": 2}}
{"end": true}
)";
  const auto report =
      Replay(UnsteadyRegistry(), text, {.wait_for = std::chrono::milliseconds(200)});
  ASSERT_TRUE(report);
  ASSERT_EQ(report->differences.size(), 1u) << "what follows would only follow from it";
  EXPECT_EQ(report->differences[0].substr(0, 3), "3: ");
}

TEST(Pattern, SaysWhereAValueDoesNotFit) {
  const auto differences = [](const char* pattern, const char* value) {
    const auto found = Differences(*ParseJson(pattern), *ParseJson(value));
    return found.empty() ? "" : found.front().substr(0, found.front().find(':'));
  };
  EXPECT_EQ(differences(R"({"a": [1, {"b": 2}]})", R"({"a": [1, {"b": 2, "c": 3}], "d": 4})"), "");
  EXPECT_EQ(differences(R"({"a": [1, {"b": 2}]})", R"({"a": [1, {"b": 3}]})"), "/a/1/b");
  EXPECT_EQ(differences(R"({"a": [1]})", R"({"a": [1, 2]})"), "/a");
  EXPECT_EQ(differences(R"({"a": {"$absent": true}})", R"({"a": null})"), "/a");
  EXPECT_EQ(differences(R"({"a": {"$any": true}})", R"({})"), "/a");
  EXPECT_EQ(differences(R"({"a": {"$contains": "x"}})", R"({"a": 1})"), "/a");
  EXPECT_EQ(differences(R"({"a": {"$has": [{"b": 1}]}})", R"({"a": [{"b": 2}, {"b": 1}]})"), "");
  EXPECT_EQ(differences(R"({"a": {"$has": [{"b": 3}]}})", R"({"a": [{"b": 2}]})"), "/a");
  EXPECT_EQ(differences("1", "2"), "/");
}

TEST(Pattern, FindsTheMessageThatIsMeant) {
  const auto meant = [](const char* pattern, const char* message) {
    return IsMeant(*ParseJson(pattern), *ParseJson(message));
  };
  EXPECT_TRUE(meant(R"({"id": 1})", R"({"id": 1, "result": {}})"));
  EXPECT_FALSE(meant(R"({"id": 1})", R"({"id": "1", "result": {}})"));
  EXPECT_FALSE(meant(R"({"id": 1})", R"({"id": 1, "method": "roots/list"})"));
  EXPECT_TRUE(meant(R"({"id": null})", R"({"id": null, "error": {}})"));
  EXPECT_FALSE(meant(R"({"method": "a"})", R"({"method": "b"})"));
  EXPECT_FALSE(meant(R"({"method": "a", "params": {"progressToken": 1}})",
                     R"({"method": "a", "params": {"progressToken": 2}})"));
  EXPECT_FALSE(meant(R"([{"id": 1}])", R"({"id": 1})"));
  const Json batch =
      InOrderOf(*ParseJson(R"([{"id": 2}, {"id": 1}])"), *ParseJson(R"([{"id": 1}, {"id": 2}])"));
  EXPECT_EQ(batch, *ParseJson(R"([{"id": 2}, {"id": 1}])"));
}

}  // namespace
}  // namespace mpnanny
