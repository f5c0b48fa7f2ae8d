// Completion in real shells, and the manual page through a real formatter. A shell that this
// machine does not have is skipped.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace mpnanny {
namespace {

ProgramOutput Started(const std::vector<std::string>& words) {
  const auto output = RunProgram(words, std::chrono::seconds(30));
  EXPECT_TRUE(output) << output.error().Text();
  return output ? *output : ProgramOutput{};
}

bool Has(const std::string& program) {
  return Started({"sh", "-c", "command -v " + program + " >/dev/null"}).exit_code == 0;
}

std::set<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// What bash offers for these words, of which the last is being typed.
std::set<std::string> Bash(const std::string& words) {
  const ProgramOutput output = Started(
      {"bash", "-c",
       "source <('" MPNANNY_PROGRAM "' completion bash); COMP_WORDS=(mpnanny " + words +
           "); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _mpnanny; echo \"${COMPREPLY[@]}\""});
  EXPECT_EQ(output.err, "") << words;
  return Words(output.out);
}

using Set = std::set<std::string>;

TEST(Completion, InBash) {
  if (!Has("bash")) GTEST_SKIP() << "no bash";
  const ProgramOutput how = Started(
      {"bash", "-c", "source <('" MPNANNY_PROGRAM "' completion bash); complete -p mpnanny"});
  EXPECT_EQ(how.out, "complete -o bashdefault -o default -F _mpnanny mpnanny\n") << how.err;
  EXPECT_EQ(Bash("che"), Set({"check"}));
  EXPECT_EQ(Bash("knowledge ''"), Set({"search", "show", "lint", "new"}));
  EXPECT_EQ(Bash("check --format ''"), Set({"text", "json", "github", "sarif"}));
  EXPECT_EQ(Bash("check --format = s"), Set({"sarif"}));
  EXPECT_EQ(Bash("check --format ="), Set({"text", "json", "github", "sarif"}));
  EXPECT_EQ(Bash("check a.py --min-sev"), Set({"--min-severity"}));
  EXPECT_EQ(Bash("knowledge search --precision fp"), Set({"fp16", "fp8", "fp4", "fp32"}));
  EXPECT_EQ(Bash("run --precision ''"), Set({"auto", "fp16", "bf16", "fp32", "fp8"}));
  EXPECT_EQ(Bash("install c"), Set({"claude-desktop", "claude-code", "cursor", "codex"}));
  EXPECT_EQ(Bash("install --wsl z"), Set({"zed"})) << "its value may be left out";
  EXPECT_EQ(Bash("completion ''"), Set({"bash", "zsh", "fish"}));
  // Nothing of ours: bash names files.
  for (const char* files : {"check ''", "check --data-dir ''", "run -- ''", "run -- check --for"}) {
    EXPECT_EQ(Bash(files), Set()) << files;
  }
}

TEST(Completion, KnowsEveryCommandAndOptionThatTheHelpNames) {
  if (!Has("bash")) GTEST_SKIP() << "no bash";
  const std::set<std::string> commands = Bash("''");
  EXPECT_GT(commands.size(), 20u);
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    const std::set<std::string> options = Bash(command + " --");
    size_t seen = 0;
    std::istringstream help(Started({MPNANNY_PROGRAM, command, "--help"}).out);
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with("  -")) continue;
      std::istringstream names(line.substr(2, line.find_first_of(" :", 3) - 2));
      for (std::string name; std::getline(names, name, ',');) {
        if (!name.starts_with("--")) continue;
        EXPECT_TRUE(options.contains(name)) << name;
        ++seen;
      }
    }
    EXPECT_EQ(seen, options.size());
  }
}

TEST(Completion, InFish) {
  if (!Has("fish")) GTEST_SKIP() << "no fish";
  const auto fish = [](const std::string& typed) {
    const ProgramOutput output =
        Started({"fish", "--no-config", "-c",
                 "'" MPNANNY_PROGRAM "' completion fish | source; complete -C '" + typed + "'"});
    EXPECT_EQ(output.err, "");
    std::set<std::string> words;
    std::istringstream lines(output.out);
    for (std::string line; std::getline(lines, line);)
      words.insert(line.substr(0, line.find('\t')));
    return words;
  };
  EXPECT_EQ(fish("mpnanny kno"), Set({"knowledge"}));
  EXPECT_EQ(fish("mpnanny check --format "), Set({"text", "json", "github", "sarif"}));
  EXPECT_EQ(fish("mpnanny check --min-sev"), Set({"--min-severity"}));
  EXPECT_EQ(fish("mpnanny install ze"), Set({"zed"}));
  EXPECT_TRUE(fish("mpnanny knowledge ").contains("search"));
}

TEST(Completion, InZsh) {
  if (!Has("zsh")) GTEST_SKIP() << "no zsh";
  EXPECT_EQ(Started({"zsh", "-fc", "'" MPNANNY_PROGRAM "' completion zsh | zsh -n"}).err, "");
  // The shell's own functions for showing words stand aside: they work while a person types only.
  const auto zsh = [](const std::string& words) {
    const ProgramOutput output =
        Started({"zsh", "-fc",
                 "source <('" MPNANNY_PROGRAM "' completion zsh)\n"
                 "compadd() { shift; print -l -- $@ }\ncompset() { }\n_files() { print files $@ }\n"
                 "_describe() { print -l -- ${${(P)2}%%:*} }\n"
                 "words=(mpnanny " +
                     words + "); CURRENT=${#words}; _mpnanny"});
    EXPECT_EQ(output.err, "") << words;
    return Words(output.out);
  };
  EXPECT_TRUE(zsh("''").contains("knowledge"));
  EXPECT_EQ(zsh("knowledge ''"), Set({"search", "show", "lint", "new"}));
  EXPECT_EQ(zsh("check --format ''"), Set({"text", "json", "github", "sarif"}));
  EXPECT_EQ(zsh("check --format=s"), Set({"text", "json", "github", "sarif"})) << "zsh filters";
  EXPECT_TRUE(zsh("check --").contains("--min-severity"));
  EXPECT_EQ(zsh("check ''"), Set({"files"}));
  EXPECT_EQ(zsh("check --data-dir ''"), Set({"files", "-/"}));
  EXPECT_EQ(zsh("run -- ''"), Set({"files"}));
}

TEST(Completion, AnotherShellIsRefused) {
  const ProgramOutput output = Started({MPNANNY_PROGRAM, "completion", "bsh"});
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_NE(output.err.find("'bash'"), std::string::npos) << output.err;
}

TEST(Manual, NamesEveryCommandAndIsRenderedWithoutAWarning) {
  const std::string page = Started({MPNANNY_PROGRAM, "man"}).out;
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXAMPLES",
                              "FILES", "ENVIRONMENT", "EXIT STATUS"}) {
    EXPECT_NE(page.find(std::string(".SH ") + section + "\n"), std::string::npos) << section;
  }
  for (const char* command : {"check", "knowledge search", "install", "man"}) {
    EXPECT_NE(page.find(std::string(".SS \"") + command + "\"\n"), std::string::npos) << command;
  }
  if (!Has("groff")) GTEST_SKIP() << "no groff";
  const ProgramOutput shown =
      Started({"sh", "-c", "'" MPNANNY_PROGRAM "' man | groff -man -ww -Tutf8 -P-c -P-b -P-u"});
  EXPECT_EQ(shown.err, "");
  for (const char* text :
       {"mpnanny check [options] [PATH...]", "--min-severity info|warning|error",
        "损失缩放一直减半", "MPNANNY_TRACE=FILE", "mpnanny knowledge search \"loss is nan\""}) {
    EXPECT_NE(shown.out.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace mpnanny
