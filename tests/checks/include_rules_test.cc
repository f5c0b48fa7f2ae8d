// Who may include whom (docs/architecture.md). The table is the rule; an exception stands below it
// with its reason.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/checks/tree.h"

namespace mpnanny::checks {
namespace {

struct Rule {
  std::string folder;                // the longest that fits a file decides
  std::vector<std::string> allowed;  // folders (ending in '/') and files
};

const std::vector<std::string> kBelowEngines = {"engines/call_context.h", "engines/json_schema.h",
                                                "numerics/", "base/"};

std::vector<std::string> With(std::vector<std::string> rooms) {
  rooms.insert(rooms.end(), kBelowEngines.begin(), kBelowEngines.end());
  return rooms;
}

const std::vector<Rule> kRules = {
    {"base/", {"base/"}},
    {"numerics/", {"numerics/"}},
    // A tool stands on engines and on no other tool; its own folder is its own.
    {"tools/",
     {"tools/tool.h", "tools/call.h", "tools/arguments.h", "engines/", "numerics/", "base/"}},
    // Engines stand on each other downwards.
    {"engines/", kBelowEngines},
    {"engines/judgement/", {"engines/judgement/", "numerics/", "base/"}},
    {"engines/worker/", With({"engines/judgement/", "engines/tensors/"})},
    {"engines/python_code/", With({"engines/runs/"})},
    {"engines/exported/", With({"engines/python_code/", "engines/worker/"})},
    {"engines/export/", With({"engines/runs/"})},
    {"engines/pack/", With({"engines/runs/"})},
    {"engines/pictures/", With({"engines/runs/"})},
    // A run may be a training of a team's database: what reads that stands below the readers of
    // runs, what ships runs into it above them.
    {"engines/runs/", With({"engines/team/address.h", "engines/team/snapshot.h"})},
    {"engines/team/", With({"engines/runs/"})},
    {"engines/team/address", kBelowEngines},
    {"engines/team/connection", kBelowEngines},
    {"engines/team/dialect", kBelowEngines},
    {"engines/team/merged_rows", kBelowEngines},
    {"engines/team/select", kBelowEngines},
    {"engines/team/snapshot", kBelowEngines},
    {"engines/ranks/", With({"engines/runs/"})},
    {"engines/mismatch/", With({"engines/runs/", "engines/tensors/"})},
    {"engines/diagnosis/", With({"engines/cases/", "engines/check/", "engines/mismatch/",
                                 "engines/ranks/", "engines/runs/"})},
    {"engines/comparison/", With({"engines/diagnosis/", "engines/runs/"})},
    {"monitor/", {"monitor/", "engines/judgement/", "numerics/", "base/"}},
    {"monitor/core/", {"monitor/core/", "numerics/", "base/"}},
    {"server/", {"server/", "tools/tool.h", "tools/call.h", "engines/call_context.h", "base/"}},
    {"server/protocol/", {"server/protocol/", "base/"}},
    {"server/transport/", {"server/transport/", "server/protocol/", "base/"}},
    {"server/command_line/",
     {"server/command_line/", "server/client_file/", "server/doctor/", "server/serve.h",
      "server/token_file.h", "tools/tool.h", "tools/call.h", "base/"}},
    {"server/client_file/", {"server/client_file/", "base/"}},
    {"server/doctor/", {"server/doctor/", "server/protocol/", "base/"}},
};

// {file, what it includes} -> why that is right.
const std::map<std::pair<std::string, std::string>, std::string> kExceptions = {
    {{"server/command_line/version_text.cc", "server/protocol/versions.h"},
     "--version names the MCP revisions"},
    {{"server/command_line/twin.cc", "engines/json_schema.h"},
     "options that only the command line has are checked as arguments are"},
    {{"server/command_line/knowledge_commands.cc", "engines/cases/lint.h"},
     "`knowledge lint` and `knowledge new` are for people who write cases, not for clients"},
    {{"server/command_line/knowledge_commands.cc", "engines/cases/page.h"},
     "`knowledge show` prints a case as people read it"},
    {{"server/command_line/export_command.cc", "engines/export/export.h"},
     "`export` writes files as well"},
    {{"server/command_line/pack_command.cc", "engines/pack/pack.h"},
     "`pack` writes a file, which no tool does: clients must not reach it"},
    {{"server/command_line/ship_command.cc", "engines/team/setup.h"},
     "`ship` writes to a database, which no tool does"},
    {{"server/command_line/ship_command.cc", "engines/team/ship.h"},
     "`ship` writes to a database, which no tool does"},
    {{"server/command_line/ship_command.cc", "engines/team/thin.h"},
     "`ship` writes to a database, which no tool does"},
    {{"server/command_line/run_command.cc", "engines/team/address.h"},
     "`run --ship` looks at the URL before a training runs for hours"},
    {{"server/command_line/tape_command.cc", "engines/judgement/replay.h"},
     "`tape` shows people what the judge made of a step"},
    {{"server/command_line/tape_command.cc", "engines/judgement/tape_page.h"},
     "`tape` shows people what the judge made of a step"},
    {{"server/command_line/tape_command.cc", "engines/judgement/tape_text.h"},
     "`tape` shows people what the judge made of a step"},
    {{"server/command_line/capture_command.cc", "engines/exported/model_file.h"},
     "`capture` writes a file as well"},
    {{"server/command_line/capture_command.cc", "engines/exported/worker.h"},
     "`capture` writes a file as well"},
    {{"server/doctor/machine_checks.cc", "engines/exported/worker.h"},
     "whether the worker starts is found out by starting it"},
    {{"server/doctor/machine_checks.cc", "engines/python_code/child.h"},
     "whether code can be confined is found out by the sandbox"},
    {{"server/doctor/machine_checks.cc", "engines/python_code/lacks.h"}, "in the same words"},
    {{"server/command_line/report_command.cc", "tools/report/page.h"},
     "`report` writes a file as well"},
    {{"server/command_line/report_command.cc", "server/view.h"}, "`view` listens, as `serve` does"},
    {{"tools/run_summary/resource.cc", "tools/list_runs/listing.h"},
     "the runs that can be read are those that list_runs lists"},
    {{"tools/run_view/resource.cc", "tools/report/page.h"},
     "the view in a client is the same page"},
    {{"server/view.cc", "tools/report/page.h"}, "a page is for browsers, which speak no MCP"},
};

// Operating system headers; what is done with them differs between systems and lives in
// base/os_*.cc.
const std::vector<std::string> kSystemHeaders = {
    "unistd.h", "sys/",      "fcntl.h",    "dlfcn.h",    "poll.h",     "signal.h",
    "csignal",  "pthread.h", "sched.h",    "termios.h",  "dirent.h",   "netinet/",
    "arpa/",    "netdb.h",   "spawn.h",    "pwd.h",      "execinfo.h", "windows.h",
    "mach/",    "linux/",    "winsock2.h", "ws2tcpip.h", "io.h",       "mach-o/"};

// Libraries that one place knows: header -> folders or files that may include it.
const std::map<std::string, std::vector<std::string>> kConfined = {
    {"valijson/", {"engines/json_schema.cc"}},
    {"yaml-cpp/", {"base/front_matter.cc", "base/yaml_values.cc"}},
    {"zlib.h", {"engines/tensors/zip.cc"}},
    {"toml++/", {"engines/check/inputs/pyproject.cc", "server/client_file/toml_edit.cc"}},
    {"spdlog/", {"base/log.cc"}},
    {"agg_", {"engines/pictures/canvas.cc"}},
    {"stb_", {"engines/pictures/canvas.cc"}},
    {"CLI/", {"server/command_line/"}},
    {"httplib.h", {"server/transport/http/library_requests.h", "server/doctor/http_checks.cc"}},
    {"Python.h", {"monitor/bindings/"}},
    {"torch/", {"engines/worker/"}},
    {"ATen/", {"engines/worker/"}},
    {"c10/", {"engines/worker/"}},
};

struct Include {
  std::string header;
  bool quoted;
};

std::vector<Include> IncludesOf(const SourceFile& file) {
  std::vector<Include> includes;
  for (const std::string& line : file.Lines()) {
    if (!line.starts_with("#include ") || line.size() < 12) continue;
    const bool quoted = line[9] == '"';
    const size_t end = line.find(quoted ? '"' : '>', 10);
    if (end != std::string::npos) includes.push_back({line.substr(10, end - 10), quoted});
  }
  return includes;
}

bool InFolders(const std::string& path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return folder.ends_with("/") ? path.starts_with(folder) : path == folder;
  });
}

// "tools/report/" of "tools/report/page.cc": the room that a file of tools/ or engines/ lies in.
std::string RoomOf(const std::string& path) {
  if (!path.starts_with("tools/") && !path.starts_with("engines/")) return "";
  const size_t end = path.find('/', path.find('/') + 1);
  return end == std::string::npos ? "" : path.substr(0, end + 1);
}

const Rule* RuleOf(const std::string& path) {
  const Rule* found = nullptr;
  for (const Rule& rule : kRules) {
    if (path.starts_with(rule.folder) && (!found || rule.folder.size() > found->folder.size()))
      found = &rule;
  }
  return found;
}

TEST(IncludeRules, EveryFolderIncludesOnlyWhatItMay) {
  int checked = 0;
  for (const SourceFile& file : Tree()) {
    const Rule* const rule = RuleOf(file.path);
    if (!IsCpp(file.path) || !rule) continue;
    for (const Include& include : IncludesOf(file)) {
      if (!include.quoted) continue;
      ++checked;
      if (kExceptions.contains({file.path, include.header})) continue;
      if (const std::string room = RoomOf(file.path);
          !room.empty() && include.header.starts_with(room)) {
        continue;
      }
      EXPECT_TRUE(InFolders(include.header, rule->allowed))
          << file.path << " includes " << include.header << ", which files of " << rule->folder
          << " may not";
    }
  }
  EXPECT_GT(checked, 100) << "the scan found next to nothing: it is broken";
}

TEST(IncludeRules, IncludesAreRootedAtTheRepository) {
  for (const SourceFile& file : Tree()) {
    if (!IsCpp(file.path)) continue;
    for (const Include& include : IncludesOf(file)) {
      if (!include.quoted) continue;
      EXPECT_TRUE(FindFile(include.header))
          << file.path << " includes \"" << include.header << "\"";
    }
  }
}

TEST(IncludeRules, EveryExceptionIsStillNeeded) {
  for (const auto& [key, reason] : kExceptions) {
    const SourceFile* const file = FindFile(key.first);
    ASSERT_TRUE(file) << key.first;
    const std::vector<Include> includes = IncludesOf(*file);
    EXPECT_TRUE(std::any_of(includes.begin(), includes.end(),
                            [&](const Include& include) { return include.header == key.second; }))
        << key.first << " no longer includes " << key.second << ": take the exception out";
    EXPECT_FALSE(reason.empty());
  }
}

TEST(IncludeRules, OperatingSystemCallsLiveInBaseOs) {
  for (const SourceFile& file : Tree()) {
    if (!IsCpp(file.path) || file.path.starts_with("base/os_") || file.path.starts_with("tests/") ||
        file.path.starts_with("bench/")) {
      continue;
    }
    for (const Include& include : IncludesOf(file)) {
      for (const std::string& header : kSystemHeaders) {
        const bool same =
            header.ends_with("/") ? include.header.starts_with(header) : include.header == header;
        EXPECT_FALSE(same) << file.path << " includes <" << include.header
                           << ">: move the call to base/os_*.cc";
      }
    }
  }
}

// Between the check of a path and its opening by name something else may have taken its place.
TEST(IncludeRules, ToolsOpenAndListThroughResolvedPaths) {
  // Commands only: the path is the one that was typed.
  const std::vector<std::string> kMay = {"engines/check/fix/apply_fixes.cc"};
  for (const SourceFile& file : Tree()) {
    if (!IsCpp(file.path) || !InFolders(file.path, {"tools/", "engines/"}) ||
        InFolders(file.path, kMay))
      continue;
    for (const std::string& line : file.Lines()) {
      for (const char* by_name : {" ReadFile(", "std::ifstream", "directory_iterator", "fopen("}) {
        EXPECT_EQ(line.find(by_name), std::string::npos)
            << file.path << ": " << line << "\nuse base/resolved_path.h";
      }
    }
  }
}

TEST(IncludeRules, OnePlaceKnowsEachLibrary) {
  for (const SourceFile& file : Tree()) {
    if (!IsCpp(file.path) || file.path.starts_with("tests/")) continue;
    for (const Include& include : IncludesOf(file)) {
      for (const auto& [library, places] : kConfined) {
        const bool of_library = library.ends_with("/") ? include.header.starts_with(library)
                                                       : include.header == library;
        EXPECT_TRUE(!of_library || include.quoted || InFolders(file.path, places))
            << file.path << " includes <" << include.header << ">";
      }
    }
  }
}

TEST(IncludeRules, OnlyTheServerKnowsJsonRpc) {
  const std::vector<std::string> kMay = {"server/protocol/", "server/transport/",
                                         "server/dispatch/", "server/methods/", "server/doctor/"};
  for (const SourceFile& file : Tree()) {
    if (!IsCpp(file.path) || InFolders(file.path, kMay) || file.path.starts_with("tests/") ||
        file.path.starts_with("bench/")) {
      continue;
    }
    for (const std::string& line : file.Lines()) {
      EXPECT_EQ(line.find("\"jsonrpc\""), std::string::npos) << file.path << ": " << line;
    }
  }
}

}  // namespace
}  // namespace mpnanny::checks
