// The server as a process: its end by EOF, signals and a client that is gone; what lands on stdout.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

// The tests' registry served by a child process on its real stdin and stdout, as `mpnanny serve`
// does it. Before other threads exist in the parent.
class ServerProcess {
 public:
  explicit ServerProcess(StdioServerOptions options = {}, PipePair pipes = MakePipes())
      : pipes_(pipes), client(pipes_.client_out, pipes_.client_in) {
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipes_.server_in, STDIN_FILENO);
      dup2(pipes_.server_out, STDOUT_FILENO);
      for (const int fd :
           {pipes_.client_out, pipes_.server_in, pipes_.server_out, pipes_.client_in})
        close(fd);
      StopEvent stop;
      stop.BindSignals();
      const auto streams = TakeStandardStreams();
      if (!streams) _exit(3);
      const Registry registry = TestRegistry();
      const bool well = RunStdioServer(registry, *streams, stop, options);
      _exit(well ? 0 : 4);
    }
    close(pipes_.server_in);
    close(pipes_.server_out);
  }
  ~ServerProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void Signal(int number) { kill(pid_, number); }

  // The exit code; negative for a signal.
  int Wait() {
    int status = 0;
    for (int i = 0; i < 2000; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "the server did not end within 20 s";
    return -1000;
  }

 private:
  PipePair pipes_;
  pid_t pid_ = -1;

 public:
  PipeClient client;
};

Json ModernCallRequest(Json id, const std::string& tool, Json arguments = Json::object()) {
  return ModernRequest(std::move(id), "tools/call",
                       {{"name", tool}, {"arguments", std::move(arguments)}});
}

void ExpectStopping(Json answer) {
  EXPECT_EQ(answer["result"]["isError"], true) << DumpJson(answer);
  EXPECT_NE(DumpJson(answer).find("server is stopping"), std::string::npos) << DumpJson(answer);
}

// A client that writes everything and closes its end at once still gets every answer.
TEST(EndOfInput, QuickCallsAreAnsweredFirst) {
  StdioServerOptions options;
  options.drain = std::chrono::seconds(60);  // a sanitizer's build on a busy machine is slow
  ServerProcess server(options);
  std::string all;
  for (int i = 0; i < 200; ++i) all += DumpJson(ModernCallRequest(i, "sleep", {{"ms", 1}})) + "\n";
  server.client.SendRaw(all);
  server.client.CloseInput();
  EXPECT_EQ(server.client.ReadAll().size(), 200u);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(EndOfInput, ACallThatHeedsCancellationDoesNotHoldTheProcess) {
  StdioServerOptions options;
  options.drain = milliseconds(50);
  ServerProcess server(options);
  server.client.Send(ModernCallRequest(1, "sleep_until_cancelled"));
  server.client.Send(ModernCallRequest(2, "echo"));
  server.client.CloseInput();
  EXPECT_EQ(server.client.Answer(2)["id"], 2);
  ExpectStopping(server.client.Answer(1));
  EXPECT_EQ(server.Wait(), 0);
}

TEST(EndOfInput, CallsThatWaitForTheirTurnAreAnswered) {
  StdioServerOptions options;
  options.drain = milliseconds(50);
  options.dispatcher.threads = 1;
  ServerProcess server(options);
  server.client.Send(ModernCallRequest(1, "sleep_until_cancelled"));
  for (int i = 2; i < 5; ++i) server.client.Send(ModernCallRequest(i, "echo"));
  server.client.CloseInput();
  const std::vector<Json> answers = server.client.ReadAll();
  EXPECT_EQ(answers.size(), 4u);
  for (const Json& answer : answers) ExpectStopping(answer);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(EndOfInput, NorDoesOneThatDoesNot) {
  StdioServerOptions options;
  options.drain = milliseconds(50);
  options.stop = milliseconds(50);
  ServerProcess server(options);
  server.client.Send(ModernCallRequest(1, "sleep", {{"ms", 600'000}}));
  server.client.Send(ModernCallRequest(2, "echo"));
  EXPECT_EQ(server.client.Answer(2)["id"], 2);
  server.client.CloseInput();
  ExpectStopping(server.client.Answer(1));
  EXPECT_EQ(server.Wait(), 4);
}

TEST(Sockets, CarryLargeAnswersToASlowReader) {
  StdioServerOptions options;
  options.drain = std::chrono::seconds(60);  // a sanitizer's build on a busy machine is slow
  ServerProcess server(options, MakeSockets());
  const std::string text(200'000, 'x');
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) server.client.Send(ModernCallRequest(i, "echo", {{"text", text}}));
    std::this_thread::sleep_for(milliseconds(50));
    server.client.CloseInput();
  });
  std::this_thread::sleep_for(milliseconds(50));
  std::vector<Json> answers = server.client.ReadAll();
  writer.join();
  EXPECT_EQ(answers.size(), 20u);
  for (Json& answer : answers) EXPECT_EQ(answer["result"]["structuredContent"]["text"], text);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Sockets, AClientThatIsGoneEndsTheProcess) {
  ServerProcess server({}, MakeSockets());
  EXPECT_TRUE(server.client.Ask(ModernRequest(1, "tools/list")).contains("result"));
  server.client.CloseOutput();
  server.client.Send(ModernRequest(2, "tools/list"));
  EXPECT_EQ(server.Wait(), 0);
}

TEST(EndOfInput, WithNothingSent) {
  ServerProcess server;
  server.client.CloseInput();
  EXPECT_TRUE(server.client.ReadAll().empty());
  EXPECT_EQ(server.Wait(), 0);
}

class StopSignal : public testing::TestWithParam<int> {};

TEST_P(StopSignal, EndsTheProcessThatIsIdle) {
  ServerProcess server;
  EXPECT_TRUE(server.client.Ask(ModernRequest(1, "tools/list")).contains("result"));
  server.Signal(GetParam());
  EXPECT_EQ(server.Wait(), 0);
}

TEST_P(StopSignal, EndsTheProcessThatIsAtWork) {
  ServerProcess server;
  server.client.Send(ModernCallRequest(1, "sleep_until_cancelled"));
  EXPECT_TRUE(server.client.Ask(ModernCallRequest(2, "echo")).contains("result"));
  server.Signal(GetParam());
  EXPECT_EQ(server.Wait(), 0);
}

// A client that does not read holds up the writer; a signal still ends the process.
TEST_P(StopSignal, EndsTheProcessThatWaitsForItsReader) {
  ServerProcess server;
  for (int i = 0; i < 40; ++i)
    server.client.Send(ModernCallRequest(i, "echo", {{"text", std::string(40'000, 'x')}}));
  std::this_thread::sleep_for(milliseconds(100));
  server.Signal(GetParam());
  EXPECT_EQ(server.Wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Both, StopSignal, testing::Values(SIGTERM, SIGINT),
                         [](const auto& each) { return each.param == SIGTERM ? "Term" : "Int"; });

TEST(ClientGone, EndsTheProcessQuietly) {
  ServerProcess server;
  EXPECT_TRUE(server.client.Ask(ModernRequest(1, "tools/list")).contains("result"));
  server.client.CloseOutput();
  server.client.Send(ModernRequest(2, "tools/list"));  // the answer to this finds no reader
  EXPECT_EQ(server.Wait(), 0) << "not killed by SIGPIPE";
}

TEST(Stdout, BelongsToTheProtocol) {
  ServerProcess server;
  for (int i = 0; i < 5; ++i) server.client.Send(ModernCallRequest(i, "print"));
  server.client.CloseInput();
  const std::vector<Json> messages = server.client.ReadAll();  // checks that every line is JSON
  EXPECT_EQ(messages.size(), 5u);
  for (Json message : messages) EXPECT_EQ(message["jsonrpc"], "2.0");
}

}  // namespace
}  // namespace mpnanny
