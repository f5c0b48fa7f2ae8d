#include "engines/exported/worker.h"

#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "base/child_process.h"
#include "base/program.h"
#include "base/text.h"
#include "engines/python_code/job_output.h"
#include "engines/worker/protocol.h"

namespace mpnanny::exported {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kGreeting{20};         // loading libtorch from a cold disk
constexpr milliseconds kLastWords{100};  // for what it prints at its end

using Process = std::unique_ptr<ChildProcess>;

// Of this process; a worker that nobody uses at the moment.
std::mutex g_mutex;
Process g_idle;

Process TakeIdle() {
  const std::lock_guard lock(g_mutex);
  return std::move(g_idle);
}

void Keep(Process worker) {
  const std::lock_guard lock(g_mutex);
  g_idle = std::move(worker);
}

std::string WorkerOf(const std::string& program) {
  return (std::filesystem::path(program).parent_path() / "mpnanny-worker").string();
}

struct Greeted {
  Process process;
  Json greeting;
};

Result<Greeted> Start(const std::string& program) {
  const std::string worker = WorkerOf(program);
  std::error_code error;
  if (!std::filesystem::exists(worker, error)) {
    return Unavailable("There is no mpnanny-worker beside " + EscapeControl(program, 300) + ".",
                       kBuildIt);
  }
  // Libraries of torch are found beside one another, unless LD_LIBRARY_PATH says otherwise.
  auto started = ChildProcess::Start(
      {"env", "-u", "LD_LIBRARY_PATH", std::string(worker::kStartedByUs) + "=1", worker});
  if (!started) return started.error();
  Process process = *std::move(started);
  const auto until = ChildProcess::Clock::now() + kGreeting;
  process->WriteLine(DumpJson(Json{{"op", "hello"}, {"protocol", worker::kProtocol}}), until);
  const ChildProcess::Line line = process->ReadLine(until);
  const auto greeting = ParseJson(line.text);
  if (line.status != ChildProcess::ReadStatus::kLine || !greeting ||
      ValueAt(*greeting, {"protocol"}) != worker::kProtocol) {
    process->Wait(ChildProcess::Clock::now() + kLastWords);
    std::string why = EscapeControl(process->errors().substr(0, 500), 600);
    if (greeting && greeting->contains("error"))
      why = EscapeControl(DumpJson((*greeting)["error"]), 300);
    return Unavailable("mpnanny-worker does not start: " + (why.empty() ? "it says nothing." : why),
                       "Its torch may have been removed or replaced. " + std::string(kBuildIt));
  }
  return Greeted{std::move(process), *greeting};
}

}  // namespace

Result<Json> GreetWorker(const std::string& program) {
  MPN_TRY_ASSIGN(auto greeted, Start(program));
  return greeted.greeting;
}

Result<Json> AskWorker(const Question& question, const std::string& folder, const Json& schema,
                       const ToolContext& context) {
  const std::string job = DumpJson(Json{{"op", "job"},
                                        {"seconds", question.seconds.count()},
                                        {"memory_mb", question.memory_mb},
                                        {"writable", folder},
                                        {"allow_weaker", context.allow_weaker_sandbox},
                                        {"request", question.request}});
  Process worker = TakeIdle();
  if (worker) worker->ForgetErrors();
  const auto soon = [] { return ChildProcess::Clock::now() + python_code::kGrace; };
  // A kept worker may have been ended by somebody since.
  if (worker && (worker->Wait(ChildProcess::Clock::now()) || !worker->WriteLine(job, soon())))
    worker.reset();
  if (!worker) {
    MPN_TRY_ASSIGN(auto started, Start(ProgramPath()));
    worker = std::move(started.process);
    worker->WriteLine(job, soon());
  }
  python_code::JobOutput output;
  const auto until = ChildProcess::Clock::now() + question.seconds + python_code::kGrace;
  MPN_TRY(output.Listen(*worker, until, context));
  const std::string errors = worker->errors();
  if (output.end && !output.end->contains("error")) Keep(std::move(worker));
  return output.Answer({.what = "The model",
                      .seconds = question.seconds,
                      .memory_mb = question.memory_mb,
                      .processes = worker::kProcesses},
                     schema, errors);
}

}  // namespace mpnanny::exported
