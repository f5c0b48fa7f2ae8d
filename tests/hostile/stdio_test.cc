// Every case of stdio.jsonl, one after the other, to one process of the real program.
//
// After each the same process must still answer a good request, and in the end leave with code 0.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/hostile/corpus.h"
#include "tests/hostile/program.h"

namespace mpnanny::hostile {
namespace {

class Session {
 public:
  explicit Session(PipeClient& client) : client_(client) {}

  // Makes the process's one client what the case wants it to be.
  void Prepare(const Json& wanted) {
    if (wanted == agreed_) return;
    ASSERT_TRUE(wanted.is_string()) << "a client cannot go back to before initialize";
    const Json answer = client_.Ask(InitializeRequest("init", wanted));
    ASSERT_EQ(answer["result"]["protocolVersion"], wanted) << DumpJson(answer);
    client_.Send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
    agreed_ = wanted;
  }

  // Sends the case and a good request after it. What comes back but the answer to that one;
  // nullopt if it never came.
  std::optional<std::vector<std::string>> Run(const Json& test_case) {
    if (test_case.contains("lines")) {
      for (const Json& line : test_case["lines"]) client_.SendLine(Bytes(line));
    } else {
      client_.SendLine(Bytes(test_case["send"]));
    }
    const std::string alive = "alive after " + test_case["name"].get<std::string>();
    client_.Send(ModernRequest(alive, "server/discover"));
    std::vector<std::string> lines;
    bool answered = false;
    while (!answered || lines.size() < CountAnswers(test_case["answer"])) {
      auto line = client_.ReadLine();
      if (!line) return std::nullopt;
      const auto json = ParseJson(*line);
      if (json && json->is_object() && json->value("id", Json()) == alive) {
        EXPECT_TRUE(json->contains("result")) << *line;
        answered = true;
      } else {
        lines.push_back(*std::move(line));
      }
    }
    return lines;
  }

 private:
  PipeClient& client_;
  Json agreed_ = nullptr;  // the revision, once initialized
};

TEST(StdioCorpus, EachCaseGetsItsAnswerAndTheProcessLives) {
  const std::vector<Json> cases = LoadCorpus("stdio.jsonl");
  ASSERT_GE(cases.size(), 60u);
  Program program({"serve"});
  Session session(program.client);
  for (const Json& test_case : cases) {
    SCOPED_TRACE(test_case["name"].get<std::string>());
    session.Prepare(test_case.value("initialized", Json("2025-11-25")));
    if (testing::Test::HasFatalFailure()) return;
    const auto lines = session.Run(test_case);
    ASSERT_TRUE(lines) << "the server is silent, or gone. Its stderr:\n" << program.Log();
    EXPECT_EQ(Mismatch(test_case["answer"], *lines), "");
  }
  program.client.CloseInput();
  EXPECT_EQ(program.client.ReadAll().size(), 0u) << "answers to nothing";
  EXPECT_EQ(program.Wait(), 0) << program.Log();
}

}  // namespace
}  // namespace mpnanny::hostile
