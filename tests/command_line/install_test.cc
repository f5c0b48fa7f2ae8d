// `mpnanny install` through the built program, in homes of its own: what it writes, what it leaves,
// what it takes back.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/json.h"
#include "server/client_file/client_file.h"
#include "server/command_line/command_line.h"
#include "tests/command_line/programs.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string client, file, key;
  FileFormat format = FileFormat::kLenientJson;
};

const std::vector<Place> kPlaces = {
    {"claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"},
    {"claude-code", ".claude.json", "mcpServers"},
    {"vscode", ".config/Code/User/mcp.json", "servers"},
    {"cursor", ".cursor/mcp.json", "mcpServers"},
    {"windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"},
    {"zed", ".config/zed/settings.json", "context_servers"},
    {"codex", ".codex/config.toml", "mcp_servers", FileFormat::kToml},
    {"gemini", ".gemini/settings.json", "mcpServers"}};

std::string Text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Install : public testing::Test {
 protected:
  void SetUp() override {
    place_ = AwkwardPlace("install");
    program_ = ProgramIn(place_ / "bin");
    home_ = place_ / "home";
    root_ = place_ / "code of \"mine\"";
    fs::create_directories(home_);
    fs::create_directories(root_);
    setenv("HOME", home_.c_str(), 1);
    for (const char* name : {"XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"}) unsetenv(name);
  }
  void TearDown() override { fs::remove_all(place_); }

  // `install` with these words; `code` is what it must end with.
  std::string Type(std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), {program_.string(), "install"});
    const auto output = RunProgram(words, std::chrono::seconds(30));
    EXPECT_TRUE(output) << output.error().Text();
    if (!output) return "";
    EXPECT_EQ(output->exit_code, code) << output->out << output->err;
    return output->out + output->err;
  }

  void Write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

  Json Entry(const Place& place) {
    const auto block = BlockIn(place.format, Text(home_ / place.file), place.key);
    EXPECT_TRUE(block) << block.error().Text();
    return block ? ValueAt(*block, {place.key.c_str(), "mpnanny"}) : Json();
  }

  size_t Files() const {
    size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home_))
      files += !entry.is_directory();
    return files;
  }

  fs::path place_, program_, home_, root_;
};

TEST_F(Install, IntoAnEmptyHomeAndOutAgain) {
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(place.client);
    const std::string shown = Type({place.client, "--root", root_, "--dry-run"});
    EXPECT_NE(shown.find("\n@@ -0,0 +1,"), std::string::npos) << shown;
    EXPECT_EQ(Files(), 0u) << "a dry run writes nothing";
    const std::string told = Type({place.client, "--root", root_});
    EXPECT_NE(told.find("Wrote " + (home_ / place.file).string()), std::string::npos) << told;
    EXPECT_NE(told.find("ok       tools: "), std::string::npos) << "it was looked at: " << told;
    const Json entry = Entry(place);
    EXPECT_EQ(entry["command"], program_.string());
    EXPECT_EQ(entry["args"], Json({"serve", "--root", root_.string()}));
    EXPECT_EQ(fs::status(home_ / place.file).permissions(), fs::perms(0600));
    const std::string written = Text(home_ / place.file);
    EXPECT_NE(Type({place.client, "--root", root_}).find("already there"), std::string::npos);
    EXPECT_EQ(Text(home_ / place.file), written);
    Type({place.client, "--undo", "--dry-run"});
    EXPECT_EQ(Text(home_ / place.file), written);
    Type({place.client, "--undo"});
    EXPECT_EQ(Files(), 0u);
    EXPECT_NE(Type({place.client, "--undo"}).find("no entry"), std::string::npos);
  }
}

TEST_F(Install, WhatWasThereComesBackByteForByte) {
  const std::string json =
      "{\r\n\t\"theme\": \"x\",\r\n\t\"KEY\": {\r\n\t\t\"other\": {\"command\": \"y\"}\r\n\t}\r\n}";
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(place.client);
    std::string text = json;
    if (place.format == FileFormat::kToml) {
      text = "# mine\r\nmodel = \"x\"\r\n[KEY.other]\r\ncommand = \"y\"";
    } else if (place.client != "claude-desktop" && place.client != "claude-code") {
      text = "// mine\r\n" + text;
    }
    text.replace(text.find("KEY"), 3, place.key);
    const fs::path file = home_ / place.file;
    Write(file, text);
    fs::permissions(file, fs::perms(0640));
    Type({place.client, "--root", root_});
    EXPECT_EQ(Text(file.string() + ".mpnanny-backup"), text);
    EXPECT_NE(Text(file).find("\"x\""), std::string::npos);
    EXPECT_EQ(fs::status(file).permissions(), fs::perms(0640));
    const std::string told = Type({place.client, "--root", root_, "--allow-exec"});  // an update
    EXPECT_NE(told.find("Wrote"), std::string::npos) << told;
    EXPECT_EQ(Entry(place)["args"].back(), "--allow-exec");
    EXPECT_EQ(Text(file.string() + ".mpnanny-backup"), text) << "that of the first time";
    Type({place.client, "--undo"});
    EXPECT_EQ(Text(file), text);
    EXPECT_EQ(fs::status(file).permissions(), fs::perms(0640));
    EXPECT_FALSE(fs::exists(file.string() + ".mpnanny-backup"));
  }
}

TEST_F(Install, UndoTakesOutOnlyTheEntryWhereOthersHaveWrittenSince) {
  const fs::path file = home_ / ".cursor/mcp.json";
  Write(file, "{\n  \"a\": 1\n}\n");
  Type({"cursor", "--root", root_});
  std::string text = Text(file);
  text.replace(text.find("\"a\": 1"), 6, "\"a\": 2");
  Write(file, text);
  Type({"cursor", "--undo"});
  EXPECT_EQ(Text(file), "{\n  \"a\": 2\n}\n");
}

TEST_F(Install, FollowsLinksAndKeepsThem) {
  Write(place_ / "dotfiles/mcp.json", "{}\n");
  fs::create_directories(home_ / ".cursor");
  fs::create_symlink(place_ / "dotfiles/mcp.json", home_ / ".cursor/mcp.json");
  Type({"cursor", "--root", root_});
  EXPECT_TRUE(fs::is_symlink(home_ / ".cursor/mcp.json"));
  EXPECT_NE(Text(place_ / "dotfiles/mcp.json").find("mpnanny"), std::string::npos);
  Type({"cursor", "--undo"});
  EXPECT_TRUE(fs::is_symlink(home_ / ".cursor/mcp.json"));
  EXPECT_EQ(Text(place_ / "dotfiles/mcp.json"), "{}\n");
  fs::remove(place_ / "dotfiles/mcp.json");
  EXPECT_NE(Type({"cursor", "--root", root_}, 2).find("leads to no file"), std::string::npos);
}

TEST_F(Install, ABrokenFileStaysAsItIs) {
  const fs::path file = home_ / ".claude.json";
  for (const std::string text : {"{\n  \"a\": 1,,\n}", "{\n  // no\n}\n", "\xff\xfe{"}) {
    Write(file, text);
    for (const char* way : {"--dry-run", "--undo", "--project=false"}) {
      const std::string told = Type({"claude-code", "--root", root_, way}, 2);
      EXPECT_NE(told.find(file.string() + ", line "), std::string::npos) << told;
      EXPECT_NE(told.find("Nothing was changed."), std::string::npos) << told;
    }
    EXPECT_EQ(Text(file), text);
    EXPECT_EQ(Files(), 1u);
  }
}

TEST_F(Install, AFolderThatCannotBeWrittenIsNamed) {
  Write(home_ / ".codeium", "a file\n");
  EXPECT_NE(Type({"windsurf", "--root", root_}, 2).find("Not a directory"), std::string::npos);
  // As somebody else than root, who may write everywhere: in this process, which has no files yet,
  // and where everybody may look, which a checkout below /root is not.
  const fs::path folder = fs::temp_directory_path() / ("install_test_" + std::to_string(getpid()));
  Write(folder / "mcp.json", "{}\n");
  fs::permissions(folder, fs::perms(0555));
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  std::istringstream in;
  std::ostringstream out, err;
  const int code = RunCommandLine(
      {"install", "cursor", "--root", "/usr", "--file", (folder / "mcp.json").string()},
      {.tools = [] { return std::vector<Tool>(); },
       .resource_templates = [] { return std::vector<ResourceTemplate>(); },
       .in = in,
       .out = out,
       .err = err});
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(code, 2) << out.str();
  EXPECT_NE(err.str().find("cannot be written: Permission denied"), std::string::npos) << err.str();
  EXPECT_EQ(Text(folder / "mcp.json"), "{}\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  fs::permissions(folder, fs::perms::owner_all);
  fs::remove_all(folder);
}

TEST_F(Install, AProjectsFileLiesInThisFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  for (const auto& [client, file] :
       std::vector<std::pair<std::string, std::string>>{{"claude-code", ".mcp.json"},
                                                        {"vscode", ".vscode/mcp.json"},
                                                        {"cursor", ".cursor/mcp.json"},
                                                        {"codex", ".codex/config.toml"},
                                                        {"gemini", ".gemini/settings.json"}}) {
    Type({client, "--project"});
    EXPECT_NE(Text(root_ / file).find("mpnanny"), std::string::npos) << file;
  }
  EXPECT_NE(Type({"zed", "--project"}, 2).find("no file for one project"), std::string::npos);
  fs::current_path(before);
}

TEST_F(Install, VariablesMoveTheHomes) {
  setenv("XDG_CONFIG_HOME", (place_ / "xdg").c_str(), 1);
  setenv("CODEX_HOME", (place_ / "codex").c_str(), 1);
  for (const char* client : {"vscode", "codex"}) Type({client, "--root", root_});
  EXPECT_TRUE(fs::exists(place_ / "xdg/Code/User/mcp.json"));
  EXPECT_TRUE(fs::exists(place_ / "codex/config.toml"));
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("CODEX_HOME");
}

TEST_F(Install, OverSshThePathsAreThoseOfTheOtherMachine) {
  const FakePrograms path(place_ / "fake");
  const std::string far = "/far away";
  // Written although it does not work from here, and that is reported.
  const std::string told = Type(
      {"cursor", "--ssh", "me@gpu-box", "--program", far + "/mpnanny", "--root", far + "/code"}, 1);
  EXPECT_NE(told.find("failed   "), std::string::npos) << told;
  EXPECT_EQ(path.Host(), "me@gpu-box");
  const Json entry = Entry(kPlaces[3]);
  EXPECT_EQ(entry["command"], "ssh");
  EXPECT_NE(
      DumpJson(entry).find("\"'/far away/mpnanny'\",\"serve\",\"--root\",\"'/far away/code'\""),
      std::string::npos)
      << DumpJson(entry);
  // Where it does work.
  Type({"cursor", "--ssh", "me@gpu-box", "--program", program_, "--root", root_});
  Type({"cursor", "--ssh", "me@gpu-box"}, 2);
  EXPECT_NE(Type({"cursor", "--ssh", "h", "--root", "code"}, 2).find("absolute"),
            std::string::npos);
  EXPECT_NE(Type({"cursor", "--program", "mpnanny"}, 2).find("absolute"), std::string::npos);
}

TEST_F(Install, VsCodesTokenStaysOutOfItsFile) {
  std::ofstream(place_ / "token") << "s3cret\n";
  fs::permissions(place_ / "token", fs::perms(0600));  // others' eyes would be refused
  const fs::path file = home_ / ".config/Code/User/mcp.json";
  Write(file, "{\n  // mine\n  \"inputs\": [],\n  \"servers\": {}\n}\n");
  const std::string before = Text(file);
  // Nothing listens there: written, and told.
  Type({"vscode", "--http", "http://127.0.0.1:9/mcp", "--token-file", place_ / "token"}, 1);
  EXPECT_NE(Text(file).find("\"mpnanny-token\""), std::string::npos) << Text(file);
  EXPECT_EQ(Text(file).find("s3cret"), std::string::npos);
  Type({"vscode", "--undo"});
  EXPECT_EQ(Text(file), before);
  EXPECT_NE(
      Type({"vscode", "--http", "http://127.0.0.1:9", "--root", root_}, 2).find("Leave them out"),
      std::string::npos);
}

}  // namespace
}  // namespace mpnanny
