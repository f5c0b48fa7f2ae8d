// `mpnanny serve --http` as a process: its one line, its refusals, its end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/http/http_client.h"

namespace mpnanny {
namespace {

class ServeProcess {
 public:
  explicit ServeProcess(std::vector<std::string> arguments, const std::string& token = "") {
    arguments.insert(arguments.begin(), {MPNANNY_PROGRAM, "serve"});
    int err[2];
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    std::string variable = "MPNANNY_TOKEN=" + token;
    char* environment[] = {variable.data(), nullptr};
    char* none[] = {nullptr};
    pid_ = fork();
    if (pid_ == 0) {
      dup2(err[1], STDERR_FILENO);
      execve(argv[0], argv.data(), token.empty() ? none : environment);
      _exit(127);
    }
    close(err[1]);
    err_ = err[0];
  }
  ~ServeProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(err_);
  }

  std::string ReadLine() {
    std::string line;
    char c;
    while (read(err_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  // The port that the line on stderr names.
  int Port() {
    const std::string line = ReadLine();
    const std::string before = "listening on http://127.0.0.1:";
    EXPECT_TRUE(line.starts_with(before) && line.ends_with("/mcp")) << line;
    return line.size() < before.size() ? 0 : std::atoi(line.c_str() + before.size());
  }
  void Signal(int number) { kill(pid_, number); }
  int Wait() {
    for (int i = 0; i < 2000; ++i) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the server did not end within 20 s";
    return -1000;
  }

 private:
  pid_t pid_ = -1;
  int err_ = -1;
};

TEST(ServeHttp, TakesAFreePortAndSaysWhich) {
  ServeProcess server({"--http", "127.0.0.1:0"});
  HttpClient client(server.Port());
  client.PostModern(ModernRequest(1, "tools/list"));
  EXPECT_EQ(client.Read().status, 200);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ServeHttp, ASignalEndsItWithStreamsOpen) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServeProcess server({"--http", "127.0.0.1:0"});
    const int port = server.Port();
    HttpClient legacy(port);
    legacy.Post(Initialize("2025-11-25"));
    const std::string session = legacy.Read().header("mcp-session-id");
    legacy.Send("GET", {{"Mcp-Session-Id", session}});
    EXPECT_EQ(legacy.ReadHead().status, 200);
    HttpClient half(port);
    half.SendRaw("POST /mcp HTTP/1.1\r\nHost: localhost\r\n");  // a request that never ends
    HttpClient idle(port);
    idle.PostModern(ModernRequest(1, "tools/list"));
    EXPECT_EQ(idle.Read().status, 200);
    server.Signal(signal);
    EXPECT_EQ(server.Wait(), 0);
    EXPECT_TRUE(legacy.ReadEvent());  // the priming one
    EXPECT_FALSE(legacy.ReadEvent());
  }
}

TEST(ServeHttp, SaysThatThePortIsTaken) {
  ServeProcess first({"--http", "127.0.0.1:0"});
  const std::string port = std::to_string(first.Port());
  ServeProcess second({"--http", "127.0.0.1:" + port});
  EXPECT_NE(second.ReadLine().find("Port " + port + " of 127.0.0.1 is in use"), std::string::npos);
  EXPECT_EQ(second.Wait(), 2);
}

TEST(ServeHttp, RefusesToServeOthersWithoutAToken) {
  ServeProcess server({"--http", "0.0.0.0:0"});
  const std::string line = server.ReadLine();
  EXPECT_NE(line.find("no token"), std::string::npos) << line;
  EXPECT_NE(line.find("--token-file"), std::string::npos) << line;
  EXPECT_EQ(server.Wait(), 2);
}

TEST(ServeHttp, RefusesUnusableOptions) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--http", "nonsense"},
           {"--http", "127.0.0.1:99999"},
           {"--http", "192.0.2.1:0"},
           {"--http", "127.0.0.1:0", "--token-file", "/no/such/file"},
           {"--token-file", "/no/such/file"}}) {
    ServeProcess server(arguments);
    EXPECT_NE(server.ReadLine(), "");
    EXPECT_NE(server.Wait(), 0) << arguments.back();
  }
}

TEST(ServeHttp, RefusesATokenThatOthersMayRead) {
  const std::string file = testing::TempDir() + "mpnanny_open_token";
  std::ofstream(file) << "from-file\n";
  for (const int mode : {0644, 0640, 0604}) {
    std::filesystem::permissions(file, std::filesystem::perms(mode));
    for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
      ServeProcess server({"--http", address, "--token-file", file});
      const std::string line = server.ReadLine();
      EXPECT_NE(line.find("chmod 600 "), std::string::npos) << line;
      EXPECT_NE(line.find(file), std::string::npos) << line;
      EXPECT_EQ(server.Wait(), 2);
    }
  }
  std::remove(file.c_str());
}

TEST(ServeHttp, ReadsTheTokenFromAFileOrTheEnvironment) {
  const std::string file = testing::TempDir() + "mpnanny_token";
  std::ofstream(file) << "from-file\n";
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  const auto status = [](int port, const std::string& token) {
    HttpClient client(port);
    client.Send("GET", {{"Authorization", "Bearer " + token}});
    return client.Read().status;
  };
  {
    ServeProcess server({"--http", "127.0.0.1:0", "--token-file", file}, "from-environment");
    const int port = server.Port();
    EXPECT_EQ(status(port, "from-file"), 405);
    EXPECT_EQ(status(port, "from-environment"), 401);
  }
  {
    ServeProcess server({"--http", "127.0.0.1:0"}, "from-environment");
    const int port = server.Port();
    EXPECT_EQ(status(port, "from-environment"), 405);
    EXPECT_EQ(status(port, ""), 401);
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace mpnanny
