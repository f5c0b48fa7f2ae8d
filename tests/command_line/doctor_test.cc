// `mpnanny doctor` against the failures that people have: each is made to happen, with real
// programs, and must be named.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/child_process.h"
#include "base/json.h"
#include "server/doctor/server_checks.h"
#include "tests/command_line/programs.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

struct Verdict {
  int code = -1;
  Json checks = Json::array();
  std::string text;

  // The checks of that name and status.
  std::vector<Json> All(const std::string& status, const std::string& name) const {
    std::vector<Json> found;
    for (const Json& check : checks) {
      if (check["status"] == status && check["name"] == name) found.push_back(check);
    }
    return found;
  }
  // What the first of them says, message and fix; "" if there is none.
  std::string Says(const std::string& status, const std::string& name) const {
    const auto found = All(status, name);
    return found.empty() ? "" : DumpJson(found.front());
  }
};

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    place_ = AwkwardPlace("doctor");
    program_ = ProgramIn(place_ / "bin dir");
    root_ = place_ / "the root's folder";
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(place_); }

  Verdict Run(std::vector<std::string> words) {
    words.insert(words.begin(), {program_.string(), "doctor", "--format", "json"});
    const auto output = RunProgram(words, std::chrono::seconds(60));
    Verdict verdict;
    if (!output) {
      ADD_FAILURE() << output.error().Text();
      return verdict;
    }
    verdict.code = output->exit_code.value_or(-1);
    verdict.text = output->out + output->err;
    if (auto json = ParseJson(output->out)) verdict.checks = (*json)["checks"];
    return verdict;
  }

  // An executable file with these lines for a shell.
  std::string Script(const std::string& name, const std::string& text) {
    WriteScript(place_ / name, text);
    return (place_ / name).string();
  }

  fs::path place_;
  fs::path program_;
  fs::path root_;
};

void ExpectSaid(const Verdict& verdict, const std::string& status, const std::string& name,
                const std::vector<std::string>& parts) {
  const std::string said = verdict.Says(status, name);
  for (const std::string& part : parts) {
    EXPECT_NE(said.find(part), std::string::npos)
        << "no '" << part << "' in the check " << name << ":\n"
        << verdict.text;
  }
}

TEST_F(Doctor, FindsNothingWhereAllIsWell) {
  const Verdict verdict = Run({"--root", root_});
  EXPECT_EQ(verdict.code, 0) << verdict.text;
  for (const char* name : {"root", "sqlite", "initialize", "tools", "discover", "end"}) {
    EXPECT_EQ(verdict.All("ok", name).size(), 1u) << name << "\n" << verdict.text;
  }
  for (const Json& check : verdict.checks) EXPECT_NE(check["status"], "failed") << check;
}

TEST_F(Doctor, PrintsOneLineACheck) {
  const auto output = RunProgram(
      {program_.string(), "doctor", "--root", root_.string(), "--root", (place_ / "gone").string()},
      std::chrono::seconds(60));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->exit_code, 1);
  size_t lines = 0;
  std::istringstream text(output->out);
  for (std::string line; std::getline(text, line); ++lines) {
    EXPECT_TRUE(line.starts_with("ok ") || line.starts_with("warning ") ||
                line.starts_with("failed "))
        << line;
    EXPECT_TRUE(!line.starts_with("failed") || line.find(" -> ") != std::string::npos) << line;
  }
  EXPECT_GE(lines, 4u) << output->out;
}

TEST_F(Doctor, NamesAMissingOrWrongRoot) {
  const Verdict here = Run({"--root", place_ / "gone"});
  ExpectSaid(here, "failed", "root", {"gone does not exist"});
  EXPECT_EQ(here.All("failed", "root").size(), 1u) << "once is enough: " << here.text;
  std::ofstream(place_ / "file.py") << "x = 1\n";
  ExpectSaid(Run({"--root", place_ / "file.py"}), "failed", "root", {"is no folder"});
  // Over ssh nobody can look; the server over there says it.
  const FakePrograms path(place_ / "fake");
  const Verdict there = Run({"--ssh", "gpu-box", "--root", place_ / "gone"});
  EXPECT_EQ(there.code, 1);
  ExpectSaid(there, "failed", "root", {"missing there", "gone is not a directory"});
}

TEST_F(Doctor, NamesARootThatCannotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "this user may read everything";
  fs::permissions(root_, fs::perms::none);
  ExpectSaid(Run({"--root", root_}), "failed", "root", {"cannot be read"});
  fs::permissions(root_, fs::perms::owner_all);
}

TEST_F(Doctor, OverSshAllIsWellToo) {
  const FakePrograms path(place_ / "fake");
  const Verdict verdict = Run({"--ssh", "me@gpu-box", "--root", root_});
  EXPECT_EQ(verdict.code, 0) << verdict.text;
  EXPECT_EQ(verdict.All("ok", "discover").size(), 1u) << verdict.text;
  EXPECT_TRUE(verdict.All("ok", "root").empty()) << "this machine's disk is not that one's";
  EXPECT_EQ(path.Host(), "me@gpu-box");
}

TEST_F(Doctor, ShowsWhatALoginShellPrints) {
  FakePrograms path(place_ / "fake");
  path.BeforeTheCommand("echo 'Welcome to gpu-box'; echo 'quota: 3%'");
  const Verdict verdict = Run({"--ssh", "gpu-box", "--root", root_});
  EXPECT_EQ(verdict.code, 1);
  ExpectSaid(verdict, "failed", "login shell",
             {"'Welcome to gpu-box'", "'quota: 3%'", "~/.bashrc"});
  EXPECT_EQ(verdict.All("ok", "initialize").size(), 1u) << "the server itself answers";
}

TEST_F(Doctor, AGreetingHidesNoAnswerAndIsNone) {
  FakePrograms path(place_ / "fake");
  for (const char* greeting : {"printf 'Welcome, no newline '", "echo '{\"hello\":1}'"}) {
    path.BeforeTheCommand(greeting);
    const Verdict verdict = Run({"--ssh", "gpu-box", "--root", root_});
    EXPECT_EQ(verdict.code, 1) << greeting;
    EXPECT_EQ(verdict.All("failed", "login shell").size(), 1u) << verdict.text;
    EXPECT_EQ(verdict.All("ok", "discover").size(), 1u) << "the server itself answers";
    EXPECT_TRUE(verdict.All("failed", "connection").empty()) << verdict.text;
  }
}

TEST_F(Doctor, OutputWithoutEndIsCountedNotKept) {
  const Checks checks = CheckServer({.words = {"sh", "-c", "exec yes hello"},
                                     .program = "sh",
                                     .answer_within = std::chrono::milliseconds(300)});
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].name, "stdout");
  EXPECT_NE(checks[0].message.find("'hello', 'hello', 'hello', and "), std::string::npos)
      << checks[0].message;
  EXPECT_NE(checks[1].message.find("within 300 ms"), std::string::npos) << checks[1].message;
}

TEST_F(Doctor, NamesAMissingDataDir) {
  const FakePrograms path(place_ / "fake");
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{}, std::vector<std::string>{"--ssh", "gpu-box"}}) {
    std::vector<std::string> words = {"--root", root_, "--data-dir", place_ / "gone"};
    words.insert(words.end(), where.begin(), where.end());
    const Verdict verdict = Run(words);
    ExpectSaid(verdict, "failed", "data-dir", {"gone is not a directory"});
    EXPECT_TRUE(verdict.All("failed", "root").empty()) << verdict.text;
  }
}

TEST_F(Doctor, AConnectionThatFailsIsNotThePythonsFault) {
  FakePrograms path(place_ / "fake");
  path.BeforeTheCommand("echo 'connect to host gpu-box port 22: Connection refused' >&2; exit 255");
  const Verdict verdict = Run({"--ssh", "gpu-box", "--root", root_, "--python", "python3"});
  EXPECT_TRUE(verdict.All("failed", "python").empty()) << verdict.text;
  ExpectSaid(verdict, "failed", "host", {"Nothing listens for ssh"});
  ExpectSaid(verdict, "failed", "connection", {"was not looked at", "Connection refused"});
}

TEST_F(Doctor, NamesWhatSshTrips) {
  FakePrograms path(place_ / "fake");
  struct Case {
    const char* said;
    const char* name;
    std::vector<std::string> parts;
  };
  for (const Case& each : std::vector<Case>{
           {"me@gpu-box: Permission denied (publickey,password).",
            "login",
            {"password", "ssh-copy-id gpu-box"}},
           {"Host key verification failed.", "host key", {"by hand"}},
           {"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "host key",
            {"ssh-keygen -R gpu-box"}},
           {"ssh: Could not resolve hostname gpu-box: Name or service not known",
            "host",
            {"no host 'gpu-box'"}},
           {"ssh: connect to host gpu-box port 22: Connection refused", "host", {"sshd"}},
           {"ssh: connect to host gpu-box port 22: Connection timed out",
            "host",
            {"does not answer"}},
           {"kex_exchange_identification: read: reset", "connection", {"kex_exchange", "by hand"}},
       }) {
    path.BeforeTheCommand("printf '%s\\n' '" + std::string(each.said) + "' >&2; exit 255");
    const Verdict verdict = Run({"--ssh", "gpu-box", "--root", root_});
    EXPECT_EQ(verdict.code, 1) << each.said;
    ExpectSaid(verdict, "failed", each.name, each.parts);
  }
}

TEST_F(Doctor, NamesAProgramThatIsNotThereOrCannotRun) {
  const FakePrograms path(place_ / "fake");
  const std::string gone = (place_ / "gone/mpnanny").string();
  ExpectSaid(Run({"--ssh", "gpu-box", "--program", gone, "--root", root_}), "failed", "program",
             {"There is no " + gone, "gpu-box", "--program"});
  ExpectSaid(Run({"--program", gone, "--root", root_}), "failed", "start", {gone});
  std::ofstream(place_ / "plain") << "text\n";
  ExpectSaid(Run({"--ssh", "gpu-box", "--program", place_ / "plain", "--root", root_}), "failed",
             "program", {"cannot be executed"});
  // A login shell that lacks something of its own ends with the same code.
  FakePrograms broken(place_ / "broken");
  broken.BeforeTheCommand("exec no_such_shell");
  const Verdict shell = Run({"--ssh", "gpu-box", "--root", root_});
  ExpectSaid(shell, "failed", "command", {"no_such_shell"});
  EXPECT_TRUE(shell.All("failed", "program").empty()) << shell.text;
  broken.BeforeTheCommand("");
  const std::string old =
      Script("old", "echo \"$0: /lib/libc.so.6: version \\`GLIBC_2.38' not found\" >&2; exit 1\n");
  ExpectSaid(Run({"--program", old, "--root", root_}), "failed", "program",
             {"newer system", "GLIBC_2.38"});
}

TEST_F(Doctor, TellsWhyAServerEndedEarly) {
  const std::string program = Script("early", "echo first >&2; echo 'out of luck' >&2; exit 7\n");
  ExpectSaid(Run({"--program", program, "--root", root_}), "failed", "server",
             {"exit code 7", "out of luck"});
  const std::string killed = Script("killed", "kill -9 $$\n");
  ExpectSaid(Run({"--program", killed, "--root", root_}), "failed", "server", {"signal 9"});
}

TEST_F(Doctor, TellsThatAnAnswerIsNoneOfTheProtocol) {
  const std::string program =
      Script("odd",
             "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"hello\":1}}'\n"
             "read line\n");
  ExpectSaid(Run({"--program", program, "--root", root_}), "failed", "initialize", {"hello"});
  const std::string error =
      Script("error",
             "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,"
             "\"message\":\"no luck\"}}'\nread line\n");
  ExpectSaid(Run({"--program", error, "--root", root_}), "failed", "initialize", {"no luck"});
}

TEST_F(Doctor, NamesTheTimeThatAServerTakesTooLongFor) {
  const Checks checks = CheckServer({.words = {"sh", "-c", "echo 'still thinking' >&2; sleep 1000"},
                                     .program = "sh",
                                     .answer_within = std::chrono::milliseconds(300)});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].status, CheckStatus::kFailed);
  EXPECT_NE(checks[0].message.find("within 300 ms"), std::string::npos) << checks[0].message;
  EXPECT_NE(checks[0].message.find("still thinking"), std::string::npos) << checks[0].message;
  EXPECT_NE(checks[0].fix.find("by hand"), std::string::npos) << checks[0].fix;
}

// An interpreter that reports `facts`, as the probe would in the real one.
std::string Interpreter(const std::string& facts, const std::string& errors = "") {
  return "echo 'site says hello'\necho 'mpnanny-probe:" + facts + "'\nprintf '%s' '" + errors +
         "' >&2\n";
}

TEST_F(Doctor, JudgesAnInterpreter) {
  const std::string start =
      R"({"version":"3.11.2","executable":"/venv/bin/python","numpy":{"version":"2.1"},)";
  const auto judged = [&](const std::string& facts, const std::string& errors = "") {
    const std::string python = Script("python", Interpreter(facts, errors));
    return Run({"--root", root_, "--python", python});
  };
  const Verdict good = judged(
      start + R"("torch":{"version":"2.10.0+cu128","cuda":"12.8"},"mpnanny":{"version":""}})");
  EXPECT_EQ(good.code, 0) << good.text;
  ExpectSaid(good, "ok", "torch", {"2.10.0+cu128", "CUDA 12.8"});
  ExpectSaid(good, "ok", "monitor", {"works"});

  const Verdict old = judged(start + R"("torch":{"version":"2.3.1"},"mpnanny":{"version":""}})");
  EXPECT_EQ(old.code, 1);
  ExpectSaid(old, "failed", "torch", {"2.3.1 is too old", "2.4"});

  ExpectSaid(
      judged(start +
             R"x("torch":{"error":"ModuleNotFoundError","message":"No module named (torch)"}})x"),
      "failed", "torch", {"import torch fails"});
  ExpectSaid(judged(start +
                    R"("torch":{"error":"ImportError","message":"libcudart.so.12: cannot open"}})"),
             "failed", "torch", {"libcudart.so.12"});
  const Verdict abi = judged(
      start +
          R"("torch":{"version":"2.4.0","numpy_error":"Numpy is not available"},"mpnanny":{"version":""}})",
      "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.1");
  EXPECT_EQ(abi.code, 0) << "it trains; only conversions to NumPy fail";
  ExpectSaid(abi, "warning", "numpy", {"built for NumPy 1", "numpy<2"});
  const Verdict bare = judged(
      start +
      R"("torch":{"version":"2.6"},"mpnanny":{"error":"ImportError","message":"undefined symbol: PyX"}})");
  EXPECT_EQ(bare.code, 1);
  ExpectSaid(bare, "failed", "monitor", {"undefined symbol"});
  ExpectSaid(judged(R"({"version":"3.8.10","executable":"p"})"), "failed", "python",
             {"3.10 or newer"});

  ExpectSaid(Run({"--root", root_, "--python", "/no/such/python"}), "failed", "python",
             {"/no/such/python"});
  ExpectSaid(Run({"--root", root_, "--python", Script("no", "echo nonsense; exit 3\n")}), "failed",
             "python", {"nonsense"});
}

TEST_F(Doctor, AsksARealInterpreterHereAndOverSsh) {
  const auto real = RunProgram({"python3", "-c", "print(1)"}, std::chrono::seconds(60));
  if (!real || real->exit_code != 0) GTEST_SKIP() << "no python3 on PATH";
  const FakePrograms path(place_ / "fake");
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{}, std::vector<std::string>{"--ssh", "gpu-box"}}) {
    std::vector<std::string> words = {"--root", root_, "--python", "python3"};
    words.insert(words.end(), where.begin(), where.end());
    const Verdict verdict = Run(words);
    ExpectSaid(verdict, "ok", "python", {"is Python 3."});
    EXPECT_EQ(verdict.All("ok", "torch").size() + verdict.All("failed", "torch").size(), 1u)
        << verdict.text;
  }
}

TEST_F(Doctor, WrongUsageIsNoDiagnosis) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--program", "mpnanny"},
           {"--ssh", "-oProxyCommand=evil"},
           {"--token-file", "x"},
           {"--http", "nonsense"},
           {"--http", "http://127.0.0.1:1", "--ssh", "h"},
           {"--http", "http://127.0.0.1:1", "--root", root_},
           {"--http", "http://127.0.0.1:1", "--program", program_},
           {"--http", "http://127.0.0.1:1", "--token-file", "/no/such/file"}}) {
    const Verdict verdict = Run(words);
    EXPECT_EQ(verdict.code, 2) << verdict.text;
    EXPECT_TRUE(verdict.checks.empty());
  }
  std::ofstream(root_ / "token") << "token\n";
  std::filesystem::permissions(root_ / "token", std::filesystem::perms(0644));
  const Verdict open = Run({"--http", "http://127.0.0.1:1", "--token-file", root_ / "token"});
  EXPECT_EQ(open.code, 2);
  EXPECT_NE(open.text.find("chmod 600"), std::string::npos) << open.text;
  const auto xml =
      RunProgram({program_.string(), "doctor", "--format", "xml"}, std::chrono::seconds(60));
  ASSERT_TRUE(xml);
  EXPECT_EQ(xml->exit_code, 2);
}

}  // namespace
}  // namespace mpnanny
