#include "engines/python_code/child.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/confinement.h"
#include "base/program.h"
#include "base/python.h"
#include "base/random_id.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engines/python_code/job_output.h"
#include "engines/python_code/lacks.h"

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
    token = json.load(sys.stdin)['token']
    error = {'kind': 'Unavailable', 'message': sys.executable + ' has no torch.',
             'try': 'Choose the interpreter of the training with `python`.'}
    os.write(3, json.dumps({'token': token, 'error': error}).encode() + b'\n')
else:
    runpy.run_module(module, run_name='__main__', alter_sys=True)
)";

std::vector<std::string> Command(const Question& question, const ToolContext& context,
                                 const std::string& sandbox, const std::string& package,
                                 const std::string& writable) {
  std::vector<std::string> words = {sandbox};
  if (context.allow_weaker_sandbox) words.emplace_back("--allow-weaker");
  if (context.allow_gpu && question.gpu != Gpu::kNo) words.emplace_back("--allow-gpu");
  words.insert(words.end(),
               {"--seconds", std::to_string(question.seconds.count()), "--memory-mb",
                std::to_string(question.memory_mb), "--processes", std::to_string(kProcesses),
                "--file-mb", std::to_string(kFileMb), "--writable", writable, "--", question.python,
                "-c", kStart, package, question.module, "--answer-fd", "3"});
  return words;
}

Result<std::string> FindSandbox(const std::string& program) {
  const std::filesystem::path beside =
      std::filesystem::path(program).parent_path() / "mpnanny-sandbox";
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return beside.generic_string();
  return NotFound("mpnanny-sandbox is not beside " + EscapeControl(program, 300) + ".",
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

Result<Json> RunChild(const Question& question, const Json& schema, const ToolContext& context) {
  if (!kCanConfine) {
    return Unavailable(
        "Code of yours runs on Linux only: this system has no sandbox that mpnanny could keep it "
        "in.",
        "Ask an mpnanny on a Linux machine, by ssh or in WSL (`mpnanny config CLIENT --ssh HOST`, "
        "`--wsl`), or in Python, where the model is: mpnanny.auto_diff(), "
        "mpnanny.choose_precision().");
  }
  if (question.gpu == Gpu::kNeeded && !context.allow_gpu) {
    return Unavailable(
        "`device` is cuda, but code of yours may not use the GPU here: --allow-gpu was not given.",
        "Give --allow-gpu to `mpnanny diff`, `precision`, `call` or `serve` (a server's line is "
        "\"args\" in the client's file; `mpnanny install CLIENT --allow-exec --allow-gpu` writes "
        "it). docs/sandbox.md says what it opens. Or leave out `device`: the CPU stands in.");
  }
  MPN_TRY_ASSIGN(const auto package, FindPythonPackage(""));
  MPN_TRY_ASSIGN(const auto sandbox, FindSandbox(ProgramPath()));
  MPN_TRY_ASSIGN(const auto folder, TemporaryFolder::Create());
  MPN_TRY_ASSIGN(auto child, ChildProcess::Start(Command(question, context, sandbox,
                                                         package.string(), folder.path())));
  const auto until = ChildProcess::Clock::now() + question.seconds + kGrace;
  JobOutput output;
  output.token = RandomId();
  Json request = question.request;
  request["token"] = output.token;
  child->WriteLine(DumpJson(request), until);
  child->CloseInput();
  MPN_TRY(output.Listen(*child, until, context));
  output.exit_code = child->Wait(ChildProcess::Clock::now() + kLastWords);
  const std::string& errors = child->errors();
  return output.Answer({.what = "The code",
                        .seconds = question.seconds,
                        .memory_mb = question.memory_mb,
                        .processes = kProcesses},
                       schema, errors);
}

Result<std::vector<Lack>> FindLacks(const std::string& program) {
  MPN_TRY_ASSIGN(const auto sandbox, FindSandbox(program));
  MPN_TRY_ASSIGN(const auto folder, TemporaryFolder::Create());
  MPN_TRY_ASSIGN(auto child,
                 ChildProcess::Start({sandbox, "--check", "--writable", folder.path()}));
  const auto until = ChildProcess::Clock::now() + kGrace;
  for (ChildProcess::Line line = child->ReadLine(until);
       line.status == ChildProcess::ReadStatus::kLine; line = child->ReadLine(until)) {
    const auto json = ParseJson(line.text);
    const Json& end = json ? ValueAt(*json, {"end"}) : Json();
    if (end.is_object() && end.contains("missing")) return LacksOf(end);
    if (end.is_object() && end.contains("error"))
      return Unavailable("mpnanny-sandbox: " + EscapeControl(DumpJson(end["error"]), 300));
  }
  return Unavailable("mpnanny-sandbox does not start.");
}

}  // namespace mpnanny::python_code
