#include "engines/python_code/job_output.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/job_relay.h"
#include "base/text.h"
#include "engines/python_code/answer_form.h"
#include "engines/python_code/lacks.h"

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

Error Stray(const std::string& stray, const std::string& errors) {
  return InvalidInput("What the process that ran it wrote as its answer makes no sense: " + stray +
                          ". No answer is taken from it." + Printed(errors),
                      "Only mpnanny itself writes to the descriptor of the answer: look in the "
                      "code, and in what it imports, for what else does.");
}

std::string At(const JobOutput& output) {
  return output.at.empty() ? "" : ", at last with: " + output.at;
}

// Why there is no answer.
Error Ended(const JobOutput& output, const Allowed& allowed, const std::string& errors) {
  if (!output.end && !output.stray.empty()) return Stray(output.stray, errors);
  if (!output.end) {
    const std::string how = !output.exit_code ? "it did not end in time and was killed"
                            : *output.exit_code > 128
                                ? "signal " + std::to_string(*output.exit_code - 128) + " ended it"
                                : "exit code " + std::to_string(*output.exit_code);
    return Unavailable("The process that ran it ended without an answer: " + how + At(output) +
                       "." + Printed(errors));
  }
  const std::string exceeded = ErrorText(*output.end, "exceeded");
  if (exceeded == "time") {
    return DeadlineExceeded(allowed.what + " ran longer than " +
                                std::to_string(allowed.seconds.count()) + " s" + At(output) + "." +
                                Printed(errors),
                            "Give smaller inputs or a larger `timeout_s`.");
  }
  if (exceeded == "memory") {
    return InvalidInput(allowed.what + " took more than " + std::to_string(allowed.memory_mb) +
                            " MB of memory." + Printed(errors),
                        "Give smaller inputs or a larger `memory_mb`.");
  }
  if (exceeded == "processes") {
    return InvalidInput(allowed.what + " started more than " + std::to_string(allowed.processes) +
                            " processes." + Printed(errors),
                        "Leave out what starts workers.");
  }
  if (const std::string error = ErrorText(*output.end, "error"); !error.empty()) {
    return Unavailable(EscapeControl(error, 500),
                       "Choose the interpreter of the training with `python`.");
  }
  const int code = output.end->value("exit_code", 0);
  std::string how = code > 128 ? "was ended by signal " + std::to_string(code - 128)
                               : "ended with exit code " + std::to_string(code);
  if (code == 128 + 11) how += " (a crash in native code)";
  if (code == 128 + 9) how += " (killed: perhaps out of memory)";
  std::string message = "The process that ran it " + how + " before it had an answer.";
  if (!output.stray.empty()) message += " What it wrote instead of one makes no sense.";
  return InvalidInput(message + Printed(errors),
                      "Check that it runs by itself on these inputs, without exit calls.");
}

Result<Json> AnswerOfJob(const JobOutput& output, const Allowed& allowed, const Json& schema,
                         const std::string& errors) {
  if (output.error && output.stray.empty()) return ToldError(*output.error, errors);
  // A process that has said all ends by itself, and well.
  const bool ended_well = output.end && !output.end->contains("error") &&
                          ErrorText(*output.end, "exceeded").empty() &&
                          ValueAt(*output.end, {"exit_code"}) == 0;
  if (ended_well && !output.stray.empty()) return Stray(output.stray, errors);
  if (!output.answer || !ended_well) return Ended(output, allowed, errors);
  auto whole = InForm(*output.answer, schema);
  if (!whole) return Stray(whole.error().message, errors);
  return whole;
}

}  // namespace

void JobOutput::Take(const std::string& line, const ToolContext& context) {
  if (line.empty()) return;
  if (line.front() == kJobMark) {
    TakeOfJob(std::string_view(line).substr(1), context);
    return;
  }
  const auto json = ParseJson(line, kMostAnswerDepth);
  if (!json || !json->is_object()) return;
  if (const auto it = json->find("end"); it != json->end() && it->is_object()) end = *it;
  // What a worker did not understand, before there was a job.
  if (const auto it = json->find("error"); it != json->end() && it->is_object()) error = *it;
}

void JobOutput::TakeOfJob(std::string_view line, const ToolContext& context) {
  if (line.empty() || !stray.empty()) return;
  if (answer || error) {
    stray = "it goes on after its answer";
    return;
  }
  const auto json = ParseJson(line, kMostAnswerDepth, DuplicateKeys::kRefuse);
  if (!json || !json->is_object()) {
    stray = "there is a line that is no JSON object";
    return;
  }
  Json fields = *json;
  if (!token.empty()) {
    if (ValueAt(fields, {"token"}) != token) {
      stray = "there is a line that somebody else has written";
      return;
    }
    fields.erase("token");
  }
  const auto field = fields.begin();
  if (fields.size() != 1 || !field.value().is_object()) {
    stray = "there is a line of an unknown form";
  } else if (field.key() == "answer") {
    answer = field.value();
  } else if (field.key() == "error") {
    error = field.value();
  } else if (field.key() == "progress") {
    const Json& done = ValueAt(field.value(), {"done"});
    const Json& what = ValueAt(field.value(), {"what"});
    if (!done.is_number() || !what.is_string()) return;
    at = EscapeControl(what.get<std::string>(), 100);
    if (context.progress) context.progress(std::clamp(done.get<double>(), 0.0, 1.0), 1.0, at);
  } else {
    stray = "there is a line of an unknown kind";
  }
}

Result<void> JobOutput::Listen(ChildProcess& process, ChildProcess::Clock::time_point until,
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
      stray = "a line is longer than " + std::to_string(ChildProcess::kMostLineBytes >> 20) + " MB";
      return {};
    }
    if (line.status != ChildProcess::ReadStatus::kTimeout) Take(line.text, context);
    if (line.status == ChildProcess::ReadStatus::kEnd) return {};
  }
  return {};
}

Result<Json> JobOutput::Answer(const Allowed& allowed, const Json& schema,
                          const std::string& errors) const {
  const std::vector<Lack> lacks = end ? LacksOf(*end) : std::vector<Lack>();
  if (end && ValueAt(*end, {"refused"}) == true) return RefusedBecause(allowed.what, lacks);
  auto whole = AnswerOfJob(*this, allowed, schema, errors);
  if (!whole) {
    Error why = whole.error();
    if (!lacks.empty()) why.message += " " + LacksText(lacks);
    return why;
  }
  if (!token.empty()) (*whole)["computed_by"] = "the process that ran the code";
  for (const Lack each : lacks)
    (*whole)["limits"].push_back(std::string("not_confined:") + NameOf(each));
  return whole;
}

}  // namespace mpnanny::python_code
