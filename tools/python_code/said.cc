#include "tools/python_code/said.h"

#include <algorithm>

#include "base/text.h"

namespace mpnanny::python_code {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::chrono::seconds kFirstSoFar{5};
constexpr size_t kPrintedShown = 1000;
constexpr size_t kMostAnswerDepth = 32;

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

std::string At(const Said& said) { return said.at.empty() ? "" : ", at last with: " + said.at; }

// Why there is no answer.
Error Ended(const Said& said, const Allowed& allowed, const std::string& errors) {
  if (!said.end && said.garbage) {
    return InvalidInput("What the process that ran it wrote as its answer makes no sense." +
                        Printed(errors));
  }
  if (!said.end) {
    const std::string how =
        !said.exit_code         ? "it did not end in time and was killed"
        : *said.exit_code > 128 ? "signal " + std::to_string(*said.exit_code - 128) + " ended it"
                                : "exit code " + std::to_string(*said.exit_code);
    return Unavailable("The process that ran it ended without an answer: " + how + At(said) + "." +
                       Printed(errors));
  }
  const std::string exceeded = ErrorText(*said.end, "exceeded");
  if (exceeded == "time") {
    return DeadlineExceeded(allowed.what + " ran longer than " +
                                std::to_string(allowed.seconds.count()) + " s" + At(said) + "." +
                                Printed(errors),
                            "Give smaller inputs or a larger timeout_s.");
  }
  if (exceeded == "memory") {
    return InvalidInput(allowed.what + " took more than " + std::to_string(allowed.memory_mb) +
                            " MB of memory." + Printed(errors),
                        "Give smaller inputs or a larger memory_mb.");
  }
  if (exceeded == "processes") {
    return InvalidInput(allowed.what + " started more than " + std::to_string(allowed.processes) +
                            " processes." + Printed(errors),
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
  std::string message = "The process that ran it " + how + " before it had an answer.";
  if (said.garbage) message += " What it wrote instead of one makes no sense.";
  return InvalidInput(message + Printed(errors),
                      "Check that it runs by itself on these inputs, without exit calls.");
}

}  // namespace

void Said::Take(const std::string& line, const ToolContext& context) {
  if (line.empty()) return;
  const auto json = ParseJson(line, kMostAnswerDepth);
  if (!json || !json->is_object()) {
    garbage = true;
    return;
  }
  if (const auto it = json->find("end"); it != json->end()) end = *it;
  if (answer || error) return;
  if (const auto it = json->find("answer"); it != json->end() && it->is_object()) answer = *it;
  if (const auto it = json->find("error"); it != json->end() && it->is_object()) error = *it;
  if (const auto it = json->find("progress"); it != json->end() && it->is_object()) {
    const Json done = it->value("done", Json());
    const Json what = it->value("what", Json());
    if (!done.is_number() || !what.is_string()) return;
    at = EscapeControl(what.get<std::string>(), 100);
    if (context.progress) context.progress(done.get<double>(), 1.0, at);
  }
}

Result<void> Said::Listen(ChildProcess& process, ChildProcess::Clock::time_point until,
                          const ToolContext& context) {
  const auto began = ChildProcess::Clock::now();
  bool shown = false;
  while (!end) {
    const auto now = ChildProcess::Clock::now();
    if (context.cancel.cancelled()) return Cancelled();
    if (now >= until) return {};
    if (!shown && context.so_far && now >= began + kFirstSoFar) {
      shown = true;
      context.so_far(
          {{{"verdict", "not_established"}, {"limits", {"still running"}}}, "It still runs."});
    }
    if (context.cancel.expired()) return context.cancel.Check().error();
    const ChildProcess::Line line = process.ReadLine(std::min(until, now + kLookEvery));
    if (line.status == ChildProcess::ReadStatus::kTooLong) {
      garbage = true;
      return {};
    }
    if (line.status != ChildProcess::ReadStatus::kTimeout) Take(line.text, context);
    if (line.status == ChildProcess::ReadStatus::kEnd) return {};
  }
  return {};
}

Result<Json> Said::Answer(const Allowed& allowed, const std::string& errors) const {
  if (!answer) return error ? ToldError(*error, errors) : Ended(*this, allowed, errors);
  Json whole = *answer;
  for (const Json& missing : ValueAt(end ? *end : Json(), {"missing"})) {
    if (missing.is_string())
      whole["limits"].push_back("not_confined:" + missing.get<std::string>());
  }
  return whole;
}

}  // namespace mpnanny::python_code
