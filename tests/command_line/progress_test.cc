// What commands write on a terminal while they work, and that none of it gets into a pipe.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "base/child_process.h"
#include "base/text.h"
#include "server/command_line/command_line.h"
#include "server/command_line/progress_line.h"
#include "tests/command_line/programs.h"

namespace mpnanny {
namespace {

using std::chrono::milliseconds;

constexpr char kErase[] = "\r\x1b[K";

TEST(ProgressLine, IsShownLateAndErased) {
  std::ostringstream err;
  {
    ProgressLine line(err, true, "mpnanny check", milliseconds(20));
    line.Report()(30, 120, "30 files \x1b checked");
    std::this_thread::sleep_for(milliseconds(300));
  }
  const std::string text = err.str();
  EXPECT_TRUE(
      text.starts_with(std::string(kErase) + "mpnanny check: 25 %, 30 files \\u{1b} checked, 0 s"))
      << EscapeControl(text);
  EXPECT_TRUE(text.ends_with(kErase));
}

TEST(ProgressLine, SaysNothingOfWhatIsShortAndNothingIntoAPipe) {
  std::ostringstream err;
  {
    ProgressLine quick(err, true, "x");
    quick.Report()(1, std::nullopt, "y");
  }
  ProgressLine piped(err, false, "x", milliseconds(0));
  EXPECT_EQ(piped.Report(), nullptr);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(err.str(), "");
}

// A tool that takes a while.
Tool SlowTool() {
  Tool tool;
  tool.definition.name = "be_slow";
  tool.definition.title = "Be slow";
  tool.definition.description = "Takes a while.";
  tool.definition.input_schema = {{"type", "object"}};
  tool.definition.output_schema = {{"type", "object"}};
  tool.definition.command = {.name = "slow", .positional = ""};
  tool.run = [](const Json&, const ToolContext& context) -> Result<ToolOutput> {
    if (context.progress) context.progress(1, 2, "half of it");
    std::this_thread::sleep_for(milliseconds(2300));
    return ToolOutput{Json::object(), "done"};
  };
  return tool;
}

TEST(Progress, ACommandTellsHowFarItIsOnATerminalOnly) {
  for (const bool terminal : {true, false}) {
    std::istringstream in;
    std::ostringstream out, err;
    EXPECT_EQ(RunCommandLine({"slow"},
                             {.tools = [] { return std::vector<Tool>{SlowTool()}; },
                              .resource_templates = [] { return std::vector<ResourceTemplate>(); },
                              .in = in,
                              .out = out,
                              .err = err,
                              .progress = terminal}),
              0);
    EXPECT_EQ(out.str(), "done\n");
    if (terminal) {
      EXPECT_NE(err.str().find("mpnanny slow: 50 %, half of it, 2 s"), std::string::npos);
      EXPECT_TRUE(err.str().ends_with(kErase));
    } else {
      EXPECT_EQ(err.str(), "");
    }
  }
}

TEST(Colours, OnTerminalsOnlyAndNotAgainstNoColor) {
  const std::filesystem::path place = AwkwardPlace("colours");
  const std::string check =
      "'" MPNANNY_PROGRAM "' check '" MPNANNY_SOURCE_DIR "/tests/clients/training_script.py'";
  const auto shell = [](const std::string& line) {
    const auto output = RunProgram({"sh", "-c", line}, std::chrono::seconds(30));
    EXPECT_TRUE(output);
    EXPECT_LE(output->exit_code, 1) << output->err;  // 1: it found something
    return output->out + output->err;
  };
  const std::string plain = shell("TERM=xterm " + check);
  EXPECT_NE(plain.find("clip-before-unscale"), std::string::npos) << plain;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos) << "no colour into a pipe";
  if (shell("command -v script || :").empty()) GTEST_SKIP() << "no script(1), which is a terminal";
  const auto terminal = [&](const std::string& variables) {
    std::ofstream(place / "run.sh") << variables << " exec " << check << "\n";
    return shell("cd '" + place.string() + "' && script -qec 'sh run.sh' /dev/null </dev/null");
  };
  EXPECT_NE(terminal("TERM=xterm").find("\x1b["), std::string::npos);
  EXPECT_EQ(terminal("TERM=xterm NO_COLOR=1").find('\x1b'), std::string::npos);
  EXPECT_EQ(terminal("TERM=dumb").find('\x1b'), std::string::npos);
  std::filesystem::remove_all(place);
}

}  // namespace
}  // namespace mpnanny
