// The worker as its caller meets it: a program that answers lines.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/worker/protocol.h"

namespace mpnanny::worker {
namespace {

#ifdef MPNANNY_WORKER_PROGRAM

struct Conversation {
  std::vector<Json> answers;
  int exit_code = -1;
};

// Sends all `lines`, then the end of input; `started_by_us` sets the variable that the program asks
// for.
Conversation Talk(const std::vector<std::string>& lines, bool started_by_us = true) {
  std::string command = "printf '%s\\n'";
  for (const std::string& line : lines) command += " '" + line + "'";
  command += std::string(" | ") + (started_by_us ? std::string(kStartedByUs) + "=1 " : "") +
             MPNANNY_WORKER_PROGRAM + " 2>/dev/null";
  Conversation talk;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return talk;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe)) {
    auto answer = ParseJson(buffer);
    EXPECT_TRUE(answer) << buffer;
    if (answer) talk.answers.push_back(*std::move(answer));
  }
  talk.exit_code = WEXITSTATUS(pclose(pipe));
  return talk;
}

TEST(Worker, GreetsWithTheTorchThatItIsLinkedTo) {
  const auto talk = Talk({R"({"op": "hello", "protocol": 3})"});
  EXPECT_EQ(talk.exit_code, 0);
  ASSERT_EQ(talk.answers.size(), 1u);
  EXPECT_EQ(talk.answers[0]["protocol"], kProtocol);
  EXPECT_TRUE(talk.answers[0]["torch"].get<std::string>().starts_with("2."));
  EXPECT_FALSE(talk.answers[0]["cpu_capability"].get<std::string>().empty());
  EXPECT_EQ(talk.answers[0]["threads"],
            1);  // set before the first operator, or forked children would hang
}

TEST(Worker, AnswersEveryLineThatItDoesNotUnderstand) {
  const auto talk =
      Talk({"{", "[]", R"({"op": 1})", R"({"op": "run"})", R"({"op": "hello", "protocol": "1"})",
            R"({"op": "hello", "protocol": 1})", R"({"op": "hello", "protocol": 3})",
            R"({"op": "run"})"});
  EXPECT_EQ(talk.exit_code, 0);
  ASSERT_EQ(talk.answers.size(), 8u);
  for (const size_t refused : {0, 1, 2, 3, 4, 5, 7}) {
    EXPECT_EQ(talk.answers[refused]["error"]["kind"], "InvalidInput") << refused;
  }
  EXPECT_EQ(talk.answers[3]["error"]["message"], "The first request must be hello.");
  EXPECT_TRUE(talk.answers[6].contains("torch"));
}

TEST(Worker, IsOfNoUseByHand) {
  const auto talk = Talk({R"({"op": "hello", "protocol": 3})"}, /*started_by_us=*/false);
  EXPECT_EQ(talk.exit_code, 2);
  EXPECT_TRUE(talk.answers.empty());
}

#else

TEST(Worker, NeedsTorch) { GTEST_SKIP() << "built without torch: mpnanny-worker was left out"; }

#endif

}  // namespace
}  // namespace mpnanny::worker
