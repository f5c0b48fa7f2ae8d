// `mpnanny serve --record` and `--replay`: a session that was recorded plays again, here and
// elsewhere, and what has changed since is told.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/json.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

ChildProcess::Clock::time_point Soon() {
  return ChildProcess::Clock::now() + std::chrono::seconds(60);
}

std::string FileText(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class RecordReplay : public testing::Test {
 protected:
  void SetUp() override {
    place_ = fs::canonical(::testing::TempDir()) / ("record " + std::to_string(getpid()));
    fs::remove_all(place_);
    root_ = place_ / "one root";
    file_ = place_ / "session.jsonl";
    fs::create_directories(root_);
    std::ofstream(root_ / "train.py")
        << "import torch\nscaler = torch.cuda.amp.GradScaler()\nx = torch.ones(3).half()\n";
  }
  void TearDown() override { fs::remove_all(place_); }

  ProgramOutput Run(std::vector<std::string> words) {
    words.insert(words.begin(), {MPNANNY_PROGRAM, "serve"});
    const auto output = RunProgram(words, std::chrono::seconds(100));
    EXPECT_TRUE(output) << output.error().Text();
    return output ? *output : ProgramOutput{};
  }
  ProgramOutput Replay(const fs::path& file, const fs::path& root) {
    return Run({"--replay", file, "--root", root});
  }
  void WriteTranscript(const std::vector<Json>& steps) {
    std::ofstream out(file_);
    out << R"({"about": "test"})"
        << "\n";
    for (const Json& step : steps) out << DumpJson(step) << "\n";
    out << R"({"end": true})"
        << "\n";
  }

  // A session of a legacy client that also asks in the new way, with an absolute path, an error, a
  // line that is no message, and progress.
  void RecordSession() {
    const auto child = ChildProcess::Start(
        {MPNANNY_PROGRAM, "serve", "--record", file_.string(), "--root", root_.string()});
    ASSERT_TRUE(child) << child.error().Text();
    ChildProcess& server = **child;
    const auto ask = [&](const Json& request) {
      ASSERT_TRUE(server.WriteLine(DumpJson(request), Soon()));
      while (true) {
        const auto line = server.ReadLine(Soon());
        ASSERT_EQ(line.status, ChildProcess::ReadStatus::kLine) << server.errors();
        const auto message = ParseJson(line.text);
        ASSERT_TRUE(message) << line.text;
        if (!message->contains("method")) return;
      }
    };
    ask(InitializeRequest(1, "2025-06-18"));
    // Every line is on the disk when its answer is there.
    EXPECT_NE(FileText(file_).find("\"serverInfo\""), std::string::npos) << FileText(file_);
    ask(Request(2, "tools/call",
                {{"name", "static_check"},
                 {"arguments", {{"paths", Json::array({(root_ / "train.py").string()})}}},
                 {"_meta", {{"progressToken", "p"}}}}));
    ask(Request("three", "tools/call",
                {{"name", "run_summary"}, {"arguments", {{"run", (root_ / "no.db").string()}}}}));
    ask(ModernRequest(4, "server/discover"));
    ASSERT_TRUE(server.WriteLine("no message", Soon()));
    EXPECT_EQ(server.ReadLine(Soon()).status, ChildProcess::ReadStatus::kLine);
    server.CloseInput();
    EXPECT_EQ(server.Wait(Soon()), 0) << server.errors();
  }

  fs::path place_;
  fs::path root_;
  fs::path file_;
};

TEST_F(RecordReplay, WhatWasRecordedPlaysAgainWhereverTheRootLies) {
  RecordSession();
  const ProgramOutput same = Replay(file_, root_);
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_NE(same.out.find("5 messages sent, 5 answers compared, no differences"), std::string::npos)
      << same.out;
  EXPECT_EQ(FileText(file_).find(root_.string()), std::string::npos) << "it names no folder";

  fs::rename(root_, place_ / "moved");
  const ProgramOutput moved = Replay(file_, place_ / "moved");
  EXPECT_EQ(moved.exit_code, 0) << moved.out << moved.err;
}

TEST_F(RecordReplay, TheFileIsPrivateAndNeverOverwritten) {
  RecordSession();
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const std::string before = FileText(file_);
  const ProgramOutput again = Run({"--record", file_, "--root", root_});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
  EXPECT_EQ(FileText(file_), before);
  EXPECT_EQ(Run({"--record", place_ / "no/such/folder", "--root", root_}).exit_code, 2);
}

TEST_F(RecordReplay, ADiskThatFailsIsToldOnceAndTheServerGoesOn) {
  // The system refuses to write more than 512 or 1,024 bytes.
  const auto child = ChildProcess::Start(
      {"sh", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" serve --record \"$1\" --root \"$2\"",
       MPNANNY_PROGRAM, file_.string(), root_.string()});
  ASSERT_TRUE(child);
  for (int id = 0; id < 3; ++id) {
    ASSERT_TRUE((*child)->WriteLine(DumpJson(ModernRequest(id, "tools/list")), Soon()));
    const auto answer = ParseJson((*child)->ReadLine(Soon()).text);
    ASSERT_TRUE(answer);
    EXPECT_EQ((*answer)["id"], id);
  }
  (*child)->CloseInput();
  EXPECT_EQ((*child)->Wait(Soon()), 0);
  const std::string errors = (*child)->errors();
  const size_t told = errors.find("The recording ends here");
  EXPECT_NE(told, std::string::npos) << errors;
  EXPECT_EQ(errors.find("The recording ends here", told + 1), std::string::npos) << errors;
}

TEST_F(RecordReplay, ADifferenceIsToldWithItsLineAndPlace) {
  WriteTranscript({{{"send", InitializeRequest(1, "2025-06-18")}},
                   {{"expect", {{"id", 1}, {"result", {{"protocolVersion", "2024-11-05"}}}}}},
                   {{"send", Request(2, "ping")}},
                   {{"expect", {{"id", 2}, {"result", {{"hello", "you"}}}}}}});
  const ProgramOutput output = Replay(file_, root_);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_NE(output.out.find("session.jsonl:3: /result/protocolVersion: expected \"2024-11-05\", "
                            "got \"2025-06-18\""),
            std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find("session.jsonl:5: /result/hello: is missing"), std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find("2 differences"), std::string::npos) << output.out;
}

TEST_F(RecordReplay, AnswersMayComeInAnotherOrder) {
  WriteTranscript({{{"send", ModernRequest(1, "server/discover")}},
                   {{"send", ModernRequest("1", "server/discover")}},
                   {{"expect", {{"id", "1"}, {"result", {{"resultType", "complete"}}}}}},
                   {{"expect", {{"id", 1}, {"result", {{"resultType", "complete"}}}}}}});
  const ProgramOutput output = Replay(file_, root_);
  EXPECT_EQ(output.exit_code, 0) << output.out;
}

TEST_F(RecordReplay, AMessageThatNobodyExpectedIsADifference) {
  WriteTranscript({{{"send", ModernRequest(1, "server/discover")}}});
  const ProgramOutput output = Replay(file_, root_);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_NE(output.out.find("nobody expected {\"jsonrpc\":\"2.0\",\"id\":1"), std::string::npos)
      << output.out;
}

TEST_F(RecordReplay, ACancelledCallMayBeAnsweredOrNot) {
  const Json cancel = {
      {"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}};
  const Json call = ModernRequest(
      1, "tools/call", {{"name", "search_knowledge"}, {"arguments", {{"query", "nan"}}}});
  for (const bool expected : {false, true}) {
    std::vector<Json> steps = {{{"send", call}}, {{"send", cancel}}};
    if (expected) steps.push_back({{"expect", {{"id", 1}}}});
    WriteTranscript(steps);
    const ProgramOutput output = Replay(file_, root_);
    EXPECT_EQ(output.exit_code, 0) << output.out;
  }
}

TEST_F(RecordReplay, WhatIsNoTranscriptIsRefused) {
  for (const auto& [text, told] : std::vector<std::pair<std::string, std::string>>{
           {"", "no line"},
           {"{\"about\": 1}\n", "cut off"},
           {"{\"about\": 1}\nnonsense\n", "line 2: not valid JSON"},
           {"{\"about\": 1}\n{\"sned\": 1}\n{\"end\": true}\n", "line 2: no step"},
           {"{\"about\": 1}\n{\"end\": true}\n{\"send\": {}}\n", "line 3: the client says"},
           {"{\"send\": {}}\n{\"end\": true}\n", "line 1: no step"}}) {
    std::ofstream(file_) << text;
    const ProgramOutput output = Replay(file_, root_);
    EXPECT_EQ(output.exit_code, 2) << text;
    EXPECT_NE(output.err.find(told), std::string::npos) << output.err;
  }
  EXPECT_EQ(Replay(place_ / "missing", root_).exit_code, 2);
}

TEST_F(RecordReplay, GoesWithStdioOnly) {
  for (const char* option : {"--record", "--replay"}) {
    const ProgramOutput output = Run({option, file_, "--http", "127.0.0.1:0", "--root", root_});
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_NE(output.err.find(option), std::string::npos) << output.err;
    EXPECT_NE(output.err.find("--http"), std::string::npos) << output.err;
    EXPECT_FALSE(fs::exists(file_));
  }
}

}  // namespace
}  // namespace mpnanny
