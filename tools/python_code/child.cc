#include "tools/python_code/child.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/confinement.h"
#include "base/program.h"
#include "base/python.h"
#include "base/temporary_folder.h"
#include "base/text.h"

namespace mpnanny::python_code {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookEvery{100};
constexpr seconds kGrace{5};  // for the sandbox to end what it runs
constexpr seconds kFirstSoFar{5};
constexpr int kProcesses = 64;
constexpr int kFileMb = 256;
constexpr size_t kPrintedShown = 1000;
constexpr size_t kMostAnswerDepth = 32;

// What the process has said, line by line.
struct Said {
  std::optional<Json> answer, error, end;
  bool garbage = false;  // a line that is none of ours
};

void Take(const std::string& line, const ToolContext& context, Said& said) {
  if (line.empty()) return;
  const auto json = ParseJson(line, kMostAnswerDepth);
  if (!json || !json->is_object()) {
    said.garbage = true;
    return;
  }
  if (const auto it = json->find("end"); it != json->end()) said.end = *it;
  if (said.answer || said.error) return;
  if (const auto it = json->find("answer"); it != json->end() && it->is_object()) said.answer = *it;
  if (const auto it = json->find("error"); it != json->end() && it->is_object()) said.error = *it;
  if (const auto it = json->find("progress"); it != json->end() && it->is_object()) {
    const Json done = it->value("done", Json());
    const Json what = it->value("what", Json());
    if (context.progress && done.is_number() && what.is_string()) {
      context.progress(done.get<double>(), 1.0, EscapeControl(what.get<std::string>(), 100));
    }
  }
}

std::string Printed(const std::string& errors) {
  if (errors.empty()) return "";
  const size_t from = errors.size() > kPrintedShown ? errors.size() - kPrintedShown : 0;
  return " It printed last: " + EscapeControl(errors.substr(from), kPrintedShown + 200);
}

std::string ErrorText(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

Error ToldError(const Json& error, const std::string& errors) {
  const std::string kind = ErrorText(error, "kind");
  const std::string message = EscapeControl(ErrorText(error, "message"), 2000);
  const std::string hint = EscapeControl(ErrorText(error, "try"), 1000);
  if (kind == "NotFound") return NotFound(message, hint);
  if (kind == "Unavailable") return Unavailable(message, hint);
  if (kind == "Internal") return Internal(message + Printed(errors));
  return InvalidInput(message, hint);
}

// Why there is no answer.
Error Ended(const Question& question, const Said& said, const std::string& errors) {
  if (!said.end && said.garbage) {
    return InvalidInput("What the process that ran the code wrote as its answer makes no sense." +
                        Printed(errors));
  }
  if (!said.end) return Unavailable("mpnanny-sandbox ended without a word." + Printed(errors));
  const std::string exceeded = ErrorText(*said.end, "exceeded");
  if (exceeded == "time") {
    return DeadlineExceeded("The code ran longer than " + std::to_string(question.seconds.count()) +
                                " s." + Printed(errors),
                            "Give smaller inputs or a larger timeout_s.");
  }
  if (exceeded == "memory") {
    return InvalidInput("The code took more than " + std::to_string(question.memory_mb) +
                            " MB of memory." + Printed(errors),
                        "Give smaller inputs or a larger memory_mb.");
  }
  if (exceeded == "processes") {
    return InvalidInput("The code started more than " + std::to_string(kProcesses) + " processes." +
                            Printed(errors),
                        "Leave out what starts workers.");
  }
  if (const std::string error = ErrorText(*said.end, "error"); !error.empty()) {
    return Unavailable(EscapeControl(error, 500),
                       "Choose the interpreter of the training with `python`.");
  }
  const int code = said.end->value("exit_code", 0);
  std::string how = code > 128 ? "was ended by signal " + std::to_string(code - 128)
                               : "ended with exit code " + std::to_string(code);
  if (code == 128 + 11) how += " (a crash in native code)";
  if (code == 128 + 9) how += " (killed: perhaps out of memory)";
  std::string message = "The process that ran the code " + how + " before it had an answer.";
  if (said.garbage) message += " What it wrote instead of one makes no sense.";
  return InvalidInput(message + Printed(errors),
                      "Check that the code runs by itself on these inputs, without exit calls.");
}

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

// What there is so far, for a client that does not wait.
void SaySoFar(const ToolContext& context) {
  if (!context.so_far) return;
  context.so_far(
      {{{"verdict", "not_established"}, {"limits", {"still running"}}}, "It still runs."});
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
  const auto began = ChildProcess::Clock::now();
  const auto until = began + question.seconds + kGrace;
  (*child)->WriteLine(DumpJson(question.request), until);
  (*child)->CloseInput();
  Said said;
  bool told = false;
  while (!said.end) {
    const auto now = ChildProcess::Clock::now();
    if (context.cancel.cancelled()) return Cancelled();
    if (now >= until) break;
    if (!told && now >= began + kFirstSoFar) {
      told = true;
      SaySoFar(context);
    }
    if (context.cancel.expired()) return context.cancel.Check().error();
    const ChildProcess::Line line = (*child)->ReadLine(std::min(until, now + kLookEvery));
    if (line.status == ChildProcess::ReadStatus::kLine) Take(line.text, context, said);
    if (line.status == ChildProcess::ReadStatus::kTooLong) {
      said.garbage = true;
      break;
    }
    if (line.status == ChildProcess::ReadStatus::kEnd) {
      Take(line.text, context, said);
      break;
    }
  }
  (*child)->Wait(ChildProcess::Clock::now() + kLookEvery);
  const std::string& errors = (*child)->errors();
  if (said.answer) {
    for (const Json& missing : ValueAt(said.end ? *said.end : Json(), {"missing"})) {
      if (missing.is_string()) {
        (*said.answer)["limits"].push_back("not_confined:" + missing.get<std::string>());
      }
    }
    return *std::move(said.answer);
  }
  if (said.error) return ToldError(*said.error, errors);
  return Ended(question, said, errors);
}

}  // namespace mpnanny::python_code
