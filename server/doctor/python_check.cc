#include "server/doctor/python_check.h"

#include <cstdlib>
#include <utility>

#include "base/child_process.h"
#include "base/json.h"
#include "base/text.h"

namespace mpnanny {
namespace {

// In front of the report: an interpreter may print other things first.
constexpr char kMark[] = "mpnanny-probe:";

// The oldest torch that the monitor is made for.
constexpr std::pair<int, int> kOldestTorch = {2, 4};
constexpr std::pair<int, int> kOldestPython = {3, 10};

std::string FactText(const Json& facts, const char* key) {
  return facts.is_object() && facts.contains(key) && facts[key].is_string()
             ? EscapeControl(facts[key].get<std::string>(), 300)
             : "";
}

// ssh's exit code where it is ssh that failed, not what it started.
constexpr int kSshFailed = 255;

Check NotReached(const std::string& python, const std::string& ssh_host, const std::string& why) {
  return {CheckStatus::kFailed, "connection",
          python + " was not looked at: ssh did not get to " + ssh_host + ": " + why,
          "Mend the connection first; this tells nothing about the interpreter."};
}

// "2.10.0+cpu" -> {2, 10}; {0, 0} if it starts with no number.
std::pair<int, int> Version(const std::string& text) {
  char* end = nullptr;
  const long major = std::strtol(text.c_str(), &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return {static_cast<int>(major), static_cast<int>(minor)};
}

std::string Why(const Json& module) {
  return FactText(module, "error") + ": " + FactText(module, "message");
}

void JudgeTorch(const std::string& python, const Json& torch, const std::string& errors,
                Checks& checks) {
  if (torch.contains("error")) {
    const bool missing = FactText(torch, "error") == "ModuleNotFoundError" &&
                         FactText(torch, "message").find("'torch'") != std::string::npos;
    checks.push_back(
        missing ? Check{CheckStatus::kFailed, "torch", python + " has no torch.",
                        "Name the interpreter that trains (of its venv or conda environment), or "
                        "install torch there."}
                : Check{CheckStatus::kFailed, "torch", "import torch fails: " + Why(torch) + ".",
                        "torch itself is broken there: install it again."});
    return;
  }
  const std::string version = FactText(torch, "version");
  if (Version(version) < kOldestTorch) {
    checks.push_back({CheckStatus::kFailed, "torch",
                      "torch " + version + " is too old: the monitor needs 2.4 or newer.",
                      "pip install --upgrade torch"});
  } else {
    const std::string cuda = FactText(torch, "cuda");
    checks.push_back(
        {CheckStatus::kOk, "torch",
         "torch " + version + (cuda.empty() ? ", without CUDA." : ", CUDA " + cuda + "."), ""});
  }
  if (torch.contains("cuda_error")) {
    checks.push_back({CheckStatus::kWarning, "cuda",
                      "torch is built for CUDA and finds no GPU. " + FactText(torch, "cuda_error"),
                      "On the machine that trains, nvidia-smi must show one."});
  }
  const bool abi = errors.find("compiled using NumPy 1") != std::string::npos;
  if (torch.contains("numpy_error") || abi) {
    checks.push_back(
        {CheckStatus::kWarning, "numpy",
         abi ? "This torch was built for NumPy 1 and finds NumPy 2."
             : "torch and NumPy do not go together: " + FactText(torch, "numpy_error") + ".",
         "pip install 'numpy<2', or a newer torch."});
  }
}

void JudgeMonitor(const std::string& python, const Json& monitor, Checks& checks) {
  if (!monitor.contains("error")) {
    checks.push_back({CheckStatus::kOk, "monitor", "import mpnanny works.", ""});
    return;
  }
  const std::string why = Why(monitor);
  const bool missing = FactText(monitor, "error") == "ModuleNotFoundError" &&
                       FactText(monitor, "message").find("'mpnanny'") != std::string::npos;
  if (missing) {
    checks.push_back({CheckStatus::kOk, "monitor",
                      python +
                          " has no mpnanny of its own, and needs none for `mpnanny run`, "
                          "`mpnanny diff` and `mpnanny precision`, which bring it. For `import "
                          "mpnanny` in your code, install the wheel there.",
                      ""});
    return;
  }
  checks.push_back({CheckStatus::kFailed, "monitor", "import mpnanny fails: " + why + ".",
                    "Install it anew with this interpreter: " + ShellQuote(python) +
                        " -m pip install . in mpnanny's folder."});
}

}  // namespace

// The working directory is taken out of the path: a file called torch.py there is not torch.
const char kPythonProbe[] = R"(import json, platform, sys
sys.path = [p for p in sys.path if p]
facts = {"version": platform.python_version(), "executable": sys.executable}
def look(name):
    try:
        module = __import__(name)
        facts[name] = {"version": str(getattr(module, "__version__", ""))}
        return module
    except BaseException as e:
        facts[name] = {"error": type(e).__name__, "message": str(e)[:500]}
look("numpy")
torch = look("torch")
if torch:
    try:
        facts["torch"]["cuda"] = torch.version.cuda
        if torch.version.cuda and not torch.cuda.is_available():
            facts["torch"]["cuda_error"] = ""
    except BaseException as e:
        facts["torch"]["cuda_error"] = str(e)[:300]
    if "error" not in facts["numpy"]:
        try:
            torch.zeros(1).numpy()
        except BaseException as e:
            facts["torch"]["numpy_error"] = str(e)[:300]
    look("mpnanny")
print("mpnanny-probe:" + json.dumps(facts))
)";

Checks JudgePython(const std::string& python, const std::string& report,
                   const std::string& errors) {
  Checks checks;
  const size_t mark = report.rfind(kMark);
  const auto facts =
      mark == std::string::npos
          ? Result<Json>(NotFound("no report"))
          : ParseJson(report.substr(mark + sizeof(kMark) - 1,
                                    report.find('\n', mark) - mark - sizeof(kMark) + 1));
  if (!facts || !facts->is_object()) {
    checks.push_back({CheckStatus::kFailed, "python",
                      python + " did not tell what it has: " +
                          EscapeControl(errors.empty() ? report : errors, 400),
                      "Is it a Python interpreter, and does it start?"});
    return checks;
  }
  const std::string version = FactText(*facts, "version");
  const bool old = Version(version) < kOldestPython;
  checks.push_back({old ? CheckStatus::kFailed : CheckStatus::kOk, "python",
                    FactText(*facts, "executable") + " is Python " + version +
                        (old ? "; the monitor needs 3.10 or newer." : "."),
                    old ? "Use a newer interpreter." : ""});
  if (facts->contains("torch")) JudgeTorch(python, (*facts)["torch"], errors, checks);
  if (facts->contains("mpnanny")) JudgeMonitor(python, (*facts)["mpnanny"], checks);
  return checks;
}

Checks CheckPython(const std::string& python, const std::vector<std::string>& words,
                   const std::string& ssh_host, std::chrono::milliseconds limit) {
  const auto output = RunProgram(words, limit);
  if (!output) {
    if (!ssh_host.empty()) return {NotReached(python, ssh_host, output.error().Text())};
    return {{CheckStatus::kFailed, "python", "Cannot start " + output.error().Text(),
             "Give the interpreter's path: --python /path/to/venv/bin/python."}};
  }
  if (!output->exit_code) {
    return {{CheckStatus::kFailed, "python",
             python + " did not end within " + std::to_string(limit.count() / 1000) +
                 " s; importing torch takes seconds. " + EscapeControl(output->err, 300),
             "Is its environment on a slow network drive?"}};
  }
  if (!ssh_host.empty() && output->exit_code == kSshFailed) {
    return {NotReached(python, ssh_host, EscapeControl(output->err, 300))};
  }
  return JudgePython(python, output->out, output->err);
}

}  // namespace mpnanny
