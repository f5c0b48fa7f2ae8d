// `mpnanny config` by doing what its reader does: the block's own command is started and answers,
// through a stand-in for ssh that treats its words as ssh does, from places with awkward names.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/json.h"
#include "tests/command_line/programs.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kClients = {"claude-desktop", "claude-code", "vscode", "cursor"};

class Config : public testing::Test {
 protected:
  void SetUp() override {
    place_ = AwkwardPlace("config");
    program_ = ProgramIn(place_ / "bin of it's \"own\"");
    root_ = place_ / "my $HOME `code`; it's \"here\" \\ there & 数据";
    fs::create_directories(root_);
    std::ofstream(root_ / "net.py") << "import torch\n";
  }
  void TearDown() override { fs::remove_all(place_); }

  ProgramOutput Run(std::vector<std::string> words) {
    words.insert(words.begin(), program_.string());
    auto output = RunProgram(words, std::chrono::seconds(20));
    EXPECT_TRUE(output) << output.error().Text();
    return output ? *output : ProgramOutput{};
  }

  Json Block(std::vector<std::string> words) {
    words.insert(words.begin(), "config");
    const ProgramOutput output = Run(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    const auto block = ParseJson(output.out);
    EXPECT_TRUE(block) << output.out;
    err_ = output.err;
    return block ? *block : Json::object();
  }

  fs::path place_;
  fs::path program_;
  fs::path root_;
  std::string err_;
};

// The entry of the block, wherever the client keeps it.
Json Entry(const Json& block) {
  return block.value(block.contains("servers") ? "servers" : "mcpServers", Json::object())
      .value("mpnanny", Json::object());
}

std::vector<std::string> WordsOf(const Json& entry) {
  std::vector<std::string> words = {entry.value("command", "")};
  for (const Json& argument : entry.value("args", Json::array())) words.push_back(argument);
  return words;
}

// Starts what the block says and lets it check a file of the root, as a client would.
void ExpectThatItServes(const Json& entry, const fs::path& root) {
  const auto child = ChildProcess::Start(WordsOf(entry));
  ASSERT_TRUE(child) << child.error().Text();
  const auto until = ChildProcess::Clock::now() + std::chrono::seconds(20);
  ASSERT_TRUE((*child)->WriteLine(
      R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",)"
      R"("capabilities":{},"clientInfo":{"name":"test","version":"1"}}})",
      until));
  const auto hello = (*child)->ReadLine(until);
  const auto answer = ParseJson(hello.text);
  ASSERT_TRUE(answer) << hello.text << (*child)->errors();
  EXPECT_EQ((*answer)["result"]["serverInfo"]["name"], "mpnanny");
  ASSERT_TRUE((*child)->WriteLine(
      DumpJson({{"jsonrpc", "2.0"},
                {"id", 2},
                {"method", "tools/call"},
                {"params",
                 {{"name", "static_check"},
                  {"arguments", {{"paths", Json::array({(root / "net.py").string()})}}}}}}),
      until));
  const auto checked = ParseJson((*child)->ReadLine(until).text);
  ASSERT_TRUE(checked);
  EXPECT_EQ((*checked)["result"]["structuredContent"]["files_scanned"], 1) << DumpJson(*checked);
  (*child)->CloseInput();
  EXPECT_EQ((*child)->Wait(until), 0) << (*child)->errors();
}

TEST_F(Config, OnOneMachineEveryClientsBlockStartsTheServer) {
  for (const std::string& client : kClients) {
    SCOPED_TRACE(client);
    const Json entry = Entry(Block({client, "--root", root_}));
    EXPECT_EQ(entry["command"], program_.string()) << "absolute: GUI clients know no PATH";
    EXPECT_EQ(entry.value("type", ""),
              client == "vscode" || client == "claude-code" ? "stdio" : "");
    ExpectThatItServes(entry, root_);
  }
}

TEST_F(Config, OverSshEveryWordArrivesAsItIs) {
  const FakePrograms path(place_ / "fake");
  for (const std::string& client : kClients) {
    SCOPED_TRACE(client);
    const Json entry = Entry(Block({client, "--ssh", "me@gpu-box", "--root", root_}));
    EXPECT_EQ(entry["command"], "ssh");
    const std::string words = DumpJson(entry["args"]);
    for (const char* needed :
         {"\"-T\"", "BatchMode=yes", "ServerAliveInterval=", "ConnectTimeout=", "\"me@gpu-box\""}) {
      EXPECT_NE(words.find(needed), std::string::npos) << needed << " in " << words;
    }
    ExpectThatItServes(entry, root_);
    EXPECT_EQ(path.Host(), "me@gpu-box");
  }
}

TEST_F(Config, InWslNoShellReadsTheWords) {
  const FakePrograms path(place_ / "fake");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cursor", "--wsl", "Ubuntu 24.04"},
        {"cursor", "--wsl"},
        {"--wsl", "cursor"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--root", root_});
    const Json entry = Entry(Block(all));
    EXPECT_EQ(entry["command"], "wsl.exe");
    EXPECT_EQ(entry["args"][0], words.size() == 3 ? "-d" : "-e");
    ExpectThatItServes(entry, root_);
  }
}

TEST_F(Config, TheOneLinerCarriesTheSameEntry) {
  const FakePrograms path(place_ / "fake");
  for (const auto& [client, command] : std::vector<std::pair<std::string, std::string>>{
           {"claude-code", "claude mcp add-json mpnanny "}, {"vscode", "code --add-mcp "}}) {
    const Json entry = Entry(Block({client, "--root", root_}));
    const size_t at = err_.find("\n  " + command);
    ASSERT_NE(at, std::string::npos) << err_;
    const std::string line = err_.substr(at + 3, err_.find('\n', at + 3) - at - 3);
    // A shell reads the line; printf in place of the client shows what it would get.
    const auto got = RunProgram({"sh", "-c", "printf %s " + line.substr(command.size())},
                                std::chrono::seconds(20));
    ASSERT_TRUE(got);
    auto json = ParseJson(got->out);
    ASSERT_TRUE(json) << got->out;
    if (client == "vscode") {
      EXPECT_EQ((*json)["name"], "mpnanny");
      json->erase("name");
    }
    EXPECT_EQ(*json, entry);
  }
}

TEST_F(Config, SaysWhereTheFileLiesOnEachSystem) {
  for (const std::string& client : kClients) {
    Block({client, "--root", root_});
    for (const char* system : {"Windows", "macOS"}) {
      if (client == "claude-code") continue;  // its file lies in the project, on every system
      EXPECT_NE(err_.find(system), std::string::npos) << client << "\n" << err_;
    }
    EXPECT_NE(err_.find(client == "claude-desktop" ? "claude_desktop_config.json" : "mcp.json"),
              std::string::npos)
        << err_;
  }
  Block({"claude-desktop", "--root", root_});
  EXPECT_NE(err_.find("%LOCALAPPDATA%\\Packages\\Claude_"), std::string::npos) << err_;
}

TEST_F(Config, OverHttpEachClientGetsWhatItsFileTakes) {
  std::ofstream(place_ / "token") << "s3cret/+=\n";
  const std::string url = "http://127.0.0.1:8765/mcp";
  const auto http = [&](const std::string& client, const std::string& given) {
    return Block({client, "--http", given, "--token-file", place_ / "token", "--root", root_});
  };
  EXPECT_EQ(
      Entry(http("claude-code", url)),
      Json({{"type", "http"}, {"url", url}, {"headers", {{"Authorization", "Bearer s3cret/+="}}}}));
  EXPECT_EQ(Entry(http("cursor", "http://127.0.0.1:8765")),
            Json({{"url", url}, {"headers", {{"Authorization", "Bearer s3cret/+="}}}}));
  const Json vscode = http("vscode", url);
  EXPECT_EQ(Entry(vscode)["headers"]["Authorization"],
            "Bearer ${input:" + vscode["inputs"][0].value("id", "") + "}");
  EXPECT_EQ(DumpJson(vscode).find("s3cret"), std::string::npos) << "its file is often committed";
  const Json desktop = Entry(http("claude-desktop", url));
  EXPECT_FALSE(desktop.contains("url")) << "Claude Desktop skips entries with a URL";
  EXPECT_EQ(desktop["command"], "npx");
  EXPECT_EQ(desktop["env"]["AUTH_HEADER"], "Bearer s3cret/+=");
  for (const Json& argument : desktop["args"]) {
    EXPECT_EQ(argument.get<std::string>().find(' '), std::string::npos) << argument;
  }
  EXPECT_NE(err_.find("no entry for a URL"), std::string::npos) << err_;
}

TEST_F(Config, OverHttpTheLinesToRunAreReadyForAShell) {
  std::ofstream(place_ / "token") << "s3cret\n";
  Block({"cursor", "--http", "http://localhost:9000/mcp", "--token-file", place_ / "token", "--ssh",
         "me@gpu-box", "--root", root_});
  const auto line_with = [&](const std::string& part) {
    const size_t at = err_.find(part);
    const size_t begin = err_.rfind('\n', at) + 1;
    return at == std::string::npos ? "" : err_.substr(begin, err_.find('\n', at) - begin);
  };
  EXPECT_NE(line_with("ssh -N").find("-L 9000:127.0.0.1:9000 me@gpu-box"), std::string::npos)
      << err_;
  const auto words = RunProgram({"sh", "-c", "printf '%s\\n' " + line_with(" serve --http ")},
                                std::chrono::seconds(20));
  ASSERT_TRUE(words);
  EXPECT_EQ(words->out, program_.string() + "\nserve\n--http\n127.0.0.1:9000\n--token-file\n" +
                            (place_ / "token").string() + "\n--root\n" + root_.string() + "\n");
}

TEST_F(Config, RefusesWhatCannotWork) {
  std::ofstream(place_ / "empty") << "\n";
  std::ofstream(place_ / "two") << "two words\n";
  const std::string url = "http://127.0.0.1:8765/mcp";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"claude-dekstop"}, "'claude-desktop'"},
      {{"--root", root_}, "which client"},
      {{"cursor", "--root", place_ / "missing"}, "is not a directory"},
      {{"cursor", "--data-dir", place_ / "missing"}, "--data-dir"},
      {{"cursor", "--ssh=-oProxyCommand=evil"}, "names no host"},
      {{"cursor", "--ssh", "two words"}, "names no host"},
      {{"cursor", "--ssh", "h", "--wsl"}, "neither"},
      {{"cursor", "--token-file", place_ / "two"}, "belongs to --http"},
      {{"cursor", "--http", "ftp://x/mcp"}, "no http:// or https://"},
      {{"cursor", "--http", "http://x:99999/mcp"}, "no port"},
      {{"cursor", "--http", "http://u:p@x/mcp"}, "holds what"},
      {{"cursor", "--http", "http://10.0.0.7:8765/mcp"}, "--token-file"},
      {{"cursor", "--http", url, "--token-file", place_ / "missing"}, "umask 077"},
      {{"cursor", "--http", url, "--token-file", place_ / "empty"}, "is empty"},
      {{"cursor", "--http", url, "--token-file", place_ / "two"}, "one word"},
  };
  for (const auto& [words, told] : cases) {
    std::vector<std::string> all = {"config"};
    all.insert(all.end(), words.begin(), words.end());
    const ProgramOutput output = Run(all);
    EXPECT_EQ(output.exit_code, 2) << told;
    EXPECT_EQ(output.out, "") << told;
    EXPECT_NE(output.err.find(told), std::string::npos) << output.err;
  }
}

}  // namespace
}  // namespace mpnanny
