// `mpnanny config` by doing what its reader does: the block's own command is started and answers,
// through a stand-in for ssh that treats its words as ssh does, from places with awkward names.
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/child_process.h"
#include "base/json.h"
#include "tests/command_line/programs.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

// Those whose file is JSON.
const std::vector<std::string> kClients = {"claude-desktop", "claude-code", "vscode", "cursor",
                                           "windsurf",       "zed",         "gemini"};

void WriteToken(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
  fs::permissions(file, fs::perms(0600));
}

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

  // The line that holds this text among what went to stderr; "" if none does.
  std::string LineWith(const std::string& part) const {
    const size_t at = err_.find(part);
    const size_t begin = err_.rfind('\n', at) + 1;
    return at == std::string::npos ? "" : err_.substr(begin, err_.find('\n', begin) - begin);
  }

  fs::path place_;
  fs::path program_;
  fs::path root_;
  std::string err_;
};

int FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(listener);
  return ntohs(address.sin_port);
}

// The entry of the block, wherever the client keeps it.
Json Entry(const Json& block) {
  for (const char* key : {"servers", "context_servers"}) {
    if (block.contains(key)) return block[key].value("mpnanny", Json::object());
  }
  return block.value("mcpServers", Json::object()).value("mpnanny", Json::object());
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

TEST_F(Config, CodexGetsToml) {
  const ProgramOutput output = Run({"config", "codex", "--root", place_ / "bin of it's \"own\""});
  const std::string bin = "/bin of it's \\\"own\\\"";
  EXPECT_EQ(output.out, "[mcp_servers.mpnanny]\ncommand = \"" + place_.string() + bin +
                            "/mpnanny\"\nargs = [\"serve\", \"--root\", \"" + place_.string() +
                            bin + "\"]\n");
  EXPECT_NE(output.err.find("~/.codex/config.toml"), std::string::npos) << output.err;
}

TEST_F(Config, SaysWhatRunningCodeNeeds) {
  const std::vector<std::string> plain = {"config", "codex", "--root", root_};
  const ProgramOutput reads = Run(plain);
  EXPECT_NE(reads.err.find("--allow-exec"), std::string::npos) << reads.err;
  EXPECT_NE(reads.err.find("--python"), std::string::npos) << reads.err;
  std::vector<std::string> words = plain;
  words.insert(words.end(), {"--allow-exec", "--allow-gpu", "--python", "/opt/venv/bin/python"});
  const ProgramOutput runs = Run(words);
  EXPECT_NE(runs.out.find("\"--allow-exec\", \"--allow-gpu\", \"--python\", "
                          "\"/opt/venv/bin/python\"]"),
            std::string::npos)
      << runs.out;
  EXPECT_EQ(runs.err.find("runs none"), std::string::npos) << runs.err;
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
    const std::map<std::string, std::string> kFiles = {
        {"claude-desktop", "claude_desktop_config.json"},
        {"claude-code", ".mcp.json"},
        {"vscode", "Code/User/mcp.json"},
        {"cursor", "~/.cursor/mcp.json"},
        {"windsurf", "~/.codeium/windsurf/mcp_config.json"},
        {"zed", "~/.config/zed/settings.json"},
        {"gemini", "~/.gemini/settings.json"}};
    EXPECT_NE(err_.find(kFiles.at(client)), std::string::npos) << err_;
  }
  Block({"claude-desktop", "--root", root_});
  EXPECT_NE(err_.find("%LOCALAPPDATA%\\Packages\\Claude_"), std::string::npos) << err_;
}

TEST_F(Config, OverHttpEachClientGetsWhatItsFileTakes) {
  WriteToken(place_ / "token", "s3cret/+=\n");
  const std::string url = "http://127.0.0.1:8765/mcp";
  const auto http = [&](const std::string& client, const std::string& given) {
    return Block({client, "--http", given, "--token-file", place_ / "token", "--root", root_});
  };
  EXPECT_EQ(
      Entry(http("claude-code", url)),
      Json({{"type", "http"}, {"url", url}, {"headers", {{"Authorization", "Bearer s3cret/+="}}}}));
  EXPECT_EQ(Entry(http("cursor", "http://127.0.0.1:8765")),
            Json({{"url", url}, {"headers", {{"Authorization", "Bearer s3cret/+="}}}}));
  const Json headers = {{"Authorization", "Bearer s3cret/+="}};
  EXPECT_EQ(Entry(http("windsurf", url)), Json({{"serverUrl", url}, {"headers", headers}}));
  EXPECT_EQ(Entry(http("zed", url)), Json({{"url", url}, {"headers", headers}}));
  EXPECT_EQ(Entry(http("gemini", url)), Json({{"httpUrl", url}, {"headers", headers}}));
  const ProgramOutput codex =
      Run({"config", "codex", "--http", url, "--token-file", place_ / "token", "--root", root_});
  EXPECT_EQ(codex.out, "[mcp_servers.mpnanny]\nurl = \"" + url +
                           "\"\nhttp_headers = { Authorization = \"Bearer s3cret/+=\" }\n")
      << codex.err;
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
  WriteToken(place_ / "token", "s3cret\n");
  Block({"cursor", "--http", "http://localhost:9000/mcp", "--token-file", place_ / "token", "--ssh",
         "me@gpu-box", "--root", root_});
  EXPECT_NE(LineWith("ssh -N").find("-L 9000:127.0.0.1:9000 me@gpu-box"), std::string::npos)
      << err_;
  const auto words = RunProgram({"sh", "-c", "printf '%s\\n' " + LineWith(" serve --http ")},
                                std::chrono::seconds(20));
  ASSERT_TRUE(words);
  EXPECT_EQ(words->out, program_.string() + "\nserve\n--http\n127.0.0.1:9000\n--token-file\n" +
                            (place_ / "token").string() + "\n--root\n" + root_.string() + "\n");
}

TEST_F(Config, TheServersLineListensWhereTheUrlLeads) {
  WriteToken(place_ / "token", "s3cret\n");
  for (const auto& [url, listen, allowed] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"http://127.0.0.1:9000/mcp", "127.0.0.1:9000", ""},
           {"http://[::1]:9000/mcp", "[::1]:9000", ""},
           {"http://10.0.0.7:9000/mcp", "0.0.0.0:9000", "10.0.0.7"},
           {"http://GPU-Box.lan:9000/mcp", "0.0.0.0:9000", "gpu-box.lan"},
           {"http://127.example.org:9000", "0.0.0.0:9000", "127.example.org"},
           {"http://[2001:db8::7]:9000/mcp", "[::]:9000", "[2001:db8::7]"},
           {"https://mcp.example.org/mcp", "127.0.0.1:8765", "mcp.example.org"},
           {"https://localhost:8443/mcp", "127.0.0.1:8765", ""}}) {
    Block({"cursor", "--http", url, "--token-file", place_ / "token", "--root", root_});
    const ProgramOutput printed = *RunProgram(
        {"sh", "-c", "printf '%s\n' " + LineWith(" serve --http ")}, std::chrono::seconds(20));
    EXPECT_NE(printed.out.find("\n--http\n" + listen + "\n"), std::string::npos) << err_;
    const std::string allow = "\n--allow-host\n" + allowed + "\n";
    EXPECT_EQ(printed.out.find(allowed.empty() ? "--allow-host" : allow) != std::string::npos,
              !allowed.empty())
        << err_;
  }
}

TEST_F(Config, TheServersLineServesTheUrlAndTheDoctorsLineSaysSo) {
  // White space around a token is the same for who prints it and for who asks for it.
  WriteToken(place_ / "token", "\n  s3cret-of-24-characters \n");
  const int port = FreePort();
  const std::string host = "gpu-box.lan:" + std::to_string(port);
  const Json entry = Entry(Block({"cursor", "--http", "http://" + host + "/mcp", "--token-file",
                                  place_ / "token", "--root", root_}));
  const auto server =
      ChildProcess::Start({"sh", "-c", "exec " + LineWith(" serve --http ") + " 2>&1"});
  ASSERT_TRUE(server);
  const auto listening = (*server)->ReadLine(ChildProcess::Clock::now() + std::chrono::seconds(20));
  ASSERT_NE(listening.text.find("listening"), std::string::npos) << listening.text;
  httplib::Client client("127.0.0.1", port);
  const std::string hello =
      R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",)"
      R"("capabilities":{},"clientInfo":{"name":"test","version":"1"}}})";
  const auto answer = client.Post("/mcp",
                                  {{"Host", host},
                                   {"Accept", "application/json, text/event-stream"},
                                   {"Authorization", entry["headers"].value("Authorization", "")}},
                                  hello, "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200) << answer->body;
  const auto doctor =
      RunProgram({"sh", "-c", LineWith(" doctor --http ")}, std::chrono::seconds(60));
  ASSERT_TRUE(doctor);
  EXPECT_EQ(doctor->exit_code, 0) << doctor->out << doctor->err;
}

TEST_F(Config, EveryLineSaysWhereItIsRun) {
  Block({"claude-code", "--ssh", "me@gpu-box", "--root", root_});
  EXPECT_NE(err_.find("On this machine, this says why:\n"), std::string::npos) << err_;
  EXPECT_EQ(LineWith(" doctor --root ").find("--ssh"), std::string::npos) << err_;
  const auto doctor =
      RunProgram({"sh", "-c", LineWith(" doctor --root ")}, std::chrono::seconds(60));
  ASSERT_TRUE(doctor);
  EXPECT_EQ(doctor->exit_code, 0) << doctor->out << doctor->err;
  const std::string there = LineWith("  mpnanny doctor --ssh me@gpu-box --program ");
  EXPECT_NE(there.find(" --root "), std::string::npos) << err_;
  EXPECT_NE(err_.find("on the client's machine, in the project's folder"), std::string::npos)
      << err_;
  setenv("USER", "", 1);
  Block({"claude-code", "--http", "http://127.0.0.1:8765/mcp", "--root", root_});
  EXPECT_EQ(err_.find("USER@"), std::string::npos) << err_;
  EXPECT_NE(err_.find("stands for what that machine calls this one"), std::string::npos) << err_;
  EXPECT_NE(err_.find("on the client's machine, in the project's folder"), std::string::npos)
      << err_;
}

TEST_F(Config, RefusesWhatCannotWork) {
  WriteToken(place_ / "empty", "\n");
  WriteToken(place_ / "two", "two words\n");
  WriteToken(place_ / "open", "token\n");
  fs::permissions(place_ / "open", fs::perms(0644));
  fs::create_directories(place_ / "b\xff");
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
      {{"cursor", "--http", "https://mcp.example.org/mcp"}, "--token-file"},
      {{"cursor", "--http", "http://127.example.org/mcp"}, "--token-file"},
      {{"cursor", "--http", "http://127.0.0.1:8765/other"}, "answers at /mcp"},
      {{"cursor", "--root", place_ / "b\xff"}, "not UTF-8"},
      {{"cursor", "--http", url, "--token-file", place_ / "missing"}, "umask 077"},
      {{"cursor", "--http", url, "--token-file", place_ / "empty"}, "is empty"},
      {{"cursor", "--http", url, "--token-file", place_ / "two"}, "one word"},
      {{"cursor", "--http", url, "--token-file", place_ / "open"}, "chmod 600"},
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
