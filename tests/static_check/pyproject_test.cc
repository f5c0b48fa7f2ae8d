// [tool.mpnanny] in pyproject.toml: what it changes, where it is looked for, how its mistakes are
// told.
#include "engines/check/inputs/pyproject.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engines/check/inputs/sources.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

// An error and, from line 8 on, a warning.
const std::string kBad = std::string(kClippedScaled) + "torch.autocast('cuda')\n";

class PyprojectTest : public testing::Test {
 protected:
  PyprojectTest()
      : folder_(fs::canonical(fs::temp_directory_path()) /
                ("mpnanny-pyproject-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~PyprojectTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text = kBad) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  CollectedSources Collect(const std::string& path,
                           const AllowedRoots& roots = AllowedRoots::Unrestricted()) const {
    auto collected = CollectSources({(folder_ / path).string()}, roots, {}, Rules().Ids());
    EXPECT_TRUE(collected) << collected.error().Text();
    return collected ? *std::move(collected) : CollectedSources{};
  }
  // "a.py:5 clip-before-unscale error"
  std::set<std::string> Check(const std::string& path, const Options& options = {}) const {
    const CollectedSources collected = Collect(path);
    const auto report = check::Check(collected.sources, options, Rules(), {});
    EXPECT_TRUE(report) << report.error().Text();
    std::set<std::string> found;
    for (const Finding& finding : report->findings) {
      found.insert(fs::path(finding.path).lexically_normal().lexically_relative(folder_).string() +
                   ":" + std::to_string(finding.line) + " " + finding.rule + " " +
                   SeverityName(finding.severity));
    }
    return found;
  }

  const fs::path folder_;
  using Set = std::set<std::string>;
};

constexpr char kClip[] = "a.py:5 clip-before-unscale error";
constexpr char kOld[] = "a.py:8 autocast-not-entered warning";

TEST_F(PyprojectTest, ChoosesRulesAndSeverities) {
  Write("a.py");
  EXPECT_EQ(Check("."), (Set{kClip, kOld}));
  Write("pyproject.toml", "[tool.mpnanny]\nignore = ['clip-before-unscale']\n");
  EXPECT_EQ(Check("."), Set{kOld});
  EXPECT_EQ(Check("a.py"), Set{kOld}) << "a named file has its project's configuration, too";
  Write("pyproject.toml", "[tool.mpnanny]\nselect = ['clip-before-unscale']\n");
  EXPECT_EQ(Check("."), Set{kClip});
  Write("pyproject.toml",
        "[tool.mpnanny.severity]\nclip-before-unscale = 'info'\nautocast-not-entered = 'off'\n");
  EXPECT_EQ(Check("."), Set{"a.py:5 clip-before-unscale info"});
}

// Hooks name every file that changed.
TEST_F(PyprojectTest, AFileThatIsNamedAndExcludedIsLeftOutOnlyIfThatIsAsked) {
  Write("old/a.py");
  Write("old/deep/b.py");
  Write("new.py");
  Write("pyproject.toml", "[tool.mpnanny]\nexclude = ['old/', '*_pb2.py']\n");
  const auto collect = [&](const std::vector<std::string>& names, bool force) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back((folder_ / name).string());
    auto collected = CollectSources(paths, AllowedRoots::Unrestricted(), {}, Rules().Ids(), force);
    EXPECT_TRUE(collected) << collected.error().Text();
    Set found;
    for (const Source& source : collected->sources)
      found.insert(fs::path(source.path).lexically_normal().lexically_relative(folder_).string());
    return found;
  };
  const std::vector<std::string> named = {"new.py", "old/a.py", "old/deep/b.py"};
  EXPECT_EQ(collect(named, false), (Set{"new.py", "old/a.py", "old/deep/b.py"}));
  EXPECT_EQ(collect(named, true), Set{"new.py"});
  EXPECT_EQ(collect({"old"}, false).size(), 2u) << "a folder that is named";
  EXPECT_EQ(collect({"old"}, true), Set{});
  EXPECT_EQ(collect({"."}, true), Set{"new.py"});
}

TEST_F(PyprojectTest, WhoCallsHasTheLastWord) {
  Write("a.py");
  Write("pyproject.toml",
        "[tool.mpnanny]\nselect = ['autocast-not-entered']\nignore = ['clip-before-unscale']\n");
  Options options;
  options.rules = {"clip-before-unscale"};
  EXPECT_EQ(Check(".", options), Set{kClip});
  options = {};
  options.also = {"clip-before-unscale"};
  EXPECT_EQ(Check(".", options), (Set{kClip, kOld}));
  options = {};
  options.ignore = {"autocast-not-entered"};
  EXPECT_EQ(Check(".", options), Set{});
}

TEST_F(PyprojectTest, AllMeansEveryRule) {
  Write("a.py");
  Write("pyproject.toml", "[tool.mpnanny]\nignore = ['clip-before-unscale']\n");
  EXPECT_EQ(Check("."), Set{kOld});
  Options options;
  options.also = {"all"};
  EXPECT_EQ(Check(".", options), (Set{kClip, kOld}));
  options.ignore = {"all"};
  EXPECT_EQ(Check(".", options), Set{});
}

TEST_F(PyprojectTest, FilesByPattern) {
  for (const char* name : {"a.py", "old/b.py", "examples/c.py", "examples/d/e.py"}) Write(name);
  Write("pyproject.toml",
        "[tool.mpnanny]\nexclude = ['old/']\n[tool.mpnanny.per-file-ignores]\n"
        "'examples/**' = ['*']\n'a.*' = ['autocast-not-entered']\n");
  EXPECT_EQ(Check("."), Set{kClip});
  EXPECT_EQ(Check("old/b.py").size(), 2u) << "what is named is checked";
  EXPECT_EQ(Check("old").size(), 2u);
  EXPECT_EQ(Check("examples/c.py"), Set{});
}

TEST_F(PyprojectTest, TheNearestWithASectionCountsAndNoneOutsideTheRoots) {
  Write("pyproject.toml", "[tool.mpnanny]\nignore = ['clip-before-unscale']\n");
  Write("package/pyproject.toml", "[tool.black]\nline-length = 100\n");
  Write("package/sub/a.py");
  Write("other/pyproject.toml", "[tool.mpnanny]\nignore = ['autocast-not-entered']\n");
  Write("other/a.py");
  EXPECT_EQ(Check("package/sub/a.py"), Set{"package/sub/a.py:8 autocast-not-entered warning"});
  EXPECT_EQ(Check("other"), Set{"other/a.py:5 clip-before-unscale error"});
  const auto roots = AllowedRoots::Create({(folder_ / "package").string()});
  ASSERT_TRUE(roots);
  EXPECT_TRUE(Collect("package/sub/a.py", *roots).projects.empty());
  EXPECT_EQ(Collect("package/sub/a.py").projects.size(), 1u);
}

TEST(Pyproject, MistakesAreToldWithTheirLineAndLeaveTheRest) {
  const auto project = ParsePyproject(
      "[tool.mpnanny]\n"
      "ignore = ['clip-before-unscal',\n  'double-unscale']\n"
      "selct = ['x']\n"
      "min-severity = 'fatal'\n"
      "fail-on = 'error'\n"
      "exclude = 3\n"
      "severity = {double-unscale = 'loud', no-such-rule-at-all = 'error'}\n"
      "per-file-ignores = {'a/*' = ['double-unscale', 'dubble-unscale']}\n",
      "p.toml", Rules().Ids());
  ASSERT_TRUE(project);
  EXPECT_EQ(project->policy->ignore, std::vector<std::string>{"double-unscale"});
  EXPECT_EQ(project->fail_on, Severity::kError);
  EXPECT_EQ(project->min_severity, std::nullopt);
  ASSERT_EQ(project->per_file.size(), 1u);
  EXPECT_EQ(project->per_file[0].second, std::vector<std::string>{"double-unscale"});
  std::string notes;
  for (const std::string& note : project->notes) notes += note + "\n";
  for (const char* part :
       {"p.toml:2: there is no rule 'clip-before-unscal'. Did you mean 'clip-before-unscale'?",
        "p.toml:4: [tool.mpnanny] has no key 'selct'. Did you mean 'select'",
        "p.toml:5: 'min-severity' must be", "p.toml:7: 'exclude' must be a list",
        "p.toml:8: 'double-unscale' must be", "p.toml:8: there is no rule 'no-such-rule-at-all'",
        "p.toml:9: there is no rule 'dubble-unscale'"}) {
    EXPECT_NE(notes.find(part), std::string::npos) << part << " is not in\n" << notes;
  }
  EXPECT_EQ(project->notes.size(), 7u) << notes;
}

TEST(Pyproject, WhatIsNoTomlIsToldOnlyWhereItIsMeantForUs) {
  EXPECT_FALSE(ParsePyproject("[tool.black\n", "p.toml", {}));
  EXPECT_FALSE(ParsePyproject("[project]\nname = 'mpnanny'\n", "p.toml", {}));
  const auto broken = ParsePyproject("[tool.mpnanny]\nignore = [\n'a'", "p.toml", {});
  ASSERT_TRUE(broken);
  ASSERT_EQ(broken->notes.size(), 1u);
  EXPECT_NE(broken->notes[0].find("p.toml:3"), std::string::npos) << broken->notes[0];
  const auto odd = ParsePyproject("[tool]\nmpnanny = 3\n", "p.toml", {});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->notes.size(), 1u);
}

}  // namespace
}  // namespace mpnanny::check
