#include "tools/python_code/child.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/confinement.h"
#include "base/program.h"
#include "base/python.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "tools/python_code/said.h"

namespace mpnanny::python_code {
namespace {

constexpr std::chrono::milliseconds kLastWords{100};  // for what it prints at its end
constexpr int kProcesses = 64;
constexpr int kFileMb = 256;

// Our package comes first in Python's search path, which an environment may ignore. Arguments: its
// folder, the module that is run.
constexpr char kStart[] =
    R"(import importlib.util, os, runpy, sys
sys.path.insert(0, sys.argv.pop(1))
module = sys.argv.pop(1)
if importlib.util.find_spec('torch') is None:
    import json
    error = {'kind': 'Unavailable', 'message': sys.executable + ' has no torch.',
             'try': 'Choose the interpreter of the training with `python`.'}
    os.write(3, json.dumps({'error': error}).encode() + b'\n')
else:
    runpy.run_module(module, run_name='__main__', alter_sys=True)
)";

std::vector<std::string> Command(const Question& question, const std::string& sandbox,
                                 const std::string& package, const std::string& writable) {
  return {sandbox,
          "--seconds",
          std::to_string(question.seconds.count()),
          "--memory-mb",
          std::to_string(question.memory_mb),
          "--processes",
          std::to_string(kProcesses),
          "--file-mb",
          std::to_string(kFileMb),
          "--writable",
          writable,
          "--",
          question.python,
          "-c",
          kStart,
          package,
          question.module,
          "--answer-fd",
          "3"};
}

Result<std::string> FindSandbox() {
  const std::filesystem::path beside =
      std::filesystem::path(ProgramPath()).parent_path() / "mpnanny-sandbox";
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return beside.generic_string();
  return NotFound("mpnanny-sandbox is not beside " + EscapeControl(ProgramPath(), 300) + ".",
                  "Build or install it: code of yours does not run without it.");
}

}  // namespace

Error MayNotRun(const std::string& tool, const std::string& command, const ToolContext& context) {
  Json arguments = {"serve"};
  for (const std::string& root : context.roots.roots()) {
    arguments.push_back("--root");
    arguments.push_back(root);
  }
  arguments.push_back("--allow-exec");
  return Unavailable(
      tool + " runs code of yours, which this server may not.",
      "In the client's file, this is the server's line that allows it: \"args\": " +
          DumpJson(arguments) +
          " (`mpnanny install CLIENT --allow-exec` writes it; with --python, the interpreter that "
          "trains). Or run `mpnanny " +
          command +
          "` in a terminal. The code then runs in a process of its own, without network, that can "
          "write to a temporary folder only.");
}

Result<Json> RunChild(const Question& question, const ToolContext& context) {
  if (!kCanConfine) {
    return Unavailable(
        "Code of yours runs on Linux only: this system has no sandbox that mpnanny could keep it "
        "in.",
        "Ask an mpnanny on a Linux machine, by ssh or in WSL (`mpnanny config CLIENT --ssh HOST`, "
        "`--wsl`), or in Python, where the model is: mpnanny.auto_diff(), "
        "mpnanny.choose_precision().");
  }
  const auto package = FindPythonPackage("");
  if (!package) return package.error();
  const auto sandbox = FindSandbox();
  if (!sandbox) return sandbox.error();
  const auto folder = TemporaryFolder::Create();
  if (!folder) return folder.error();
  auto child = ChildProcess::Start(Command(question, *sandbox, package->string(), folder->path()));
  if (!child) return child.error();
  const auto until = ChildProcess::Clock::now() + question.seconds + kGrace;
  (*child)->WriteLine(DumpJson(question.request), until);
  (*child)->CloseInput();
  Said said;
  if (auto heard = said.Listen(**child, until, context); !heard) return heard.error();
  said.exit_code = (*child)->Wait(ChildProcess::Clock::now() + kLastWords);
  const std::string& errors = (*child)->errors();
  return said.Answer({.what = "The code",
                      .seconds = question.seconds,
                      .memory_mb = question.memory_mb,
                      .processes = kProcesses},
                     errors);
}

}  // namespace mpnanny::python_code
