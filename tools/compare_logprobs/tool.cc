#include "tools/tool.h"

#include <optional>
#include <string>

#include "base/text.h"
#include "engines/mismatch/arrays.h"
#include "engines/mismatch/judge.h"
#include "engines/mismatch/log_figures.h"
#include "engines/mismatch/record.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/page.h"
#include "tools/compare_logprobs/report.h"

namespace mpnanny::compare_logprobs {
namespace {

constexpr const char* kHowToRecord =
    "Call mpnanny.log_mismatch(trainer_logprobs, rollout_logprobs, mask=…) once an update in the "
    "training, or give two files of log-probabilities as `a` and `b`.";

bool IsArrays(const std::string& path) {
  const std::string file = path.substr(0, path.rfind('#'));
  for (const char* ending : {".npz", ".npy", ".safetensors", ".pt", ".pth", ".json", ".jsonl"}) {
    if (file.ends_with(ending)) return true;
  }
  return false;
}

Result<ToolOutput> Answer(Asked asked, const mismatch::Calls& calls, const Json& arguments,
                          const ToolContext& context) {
  const size_t bytes = runs::AnswerBytes(arguments, context);
  asked.chinese_too = context.chinese_too;
  Json json = ReportJson(asked, calls, mismatch::Judge(calls.calls), bytes);
  std::string text = ReportText(json, bytes);
  return ToolOutput{std::move(json), std::move(text)};
}

Result<ToolOutput> OfRun(const std::string& key, const Json& arguments,
                         const ToolContext& context) {
  MPN_TRY_ASSIGN(const auto source, runs::OpenAskedRun(arguments, context, key.c_str()));
  MPN_TRY_ASSIGN(auto calls, mismatch::ReadCalls(source));
  if (calls.calls.empty()) {
    MPN_TRY_ASSIGN(calls, mismatch::ReadLogFigures(source));
  }
  // What limits the reading of the run itself; of a log its notes on figures say nothing here.
  if (source.format.empty())
    calls.notes.insert(calls.notes.begin(), source.notes.begin(), source.notes.end());
  return Answer({runs::ShownHandle(source)}, calls, arguments, context);
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  if (arguments.contains("run")) {
    if (arguments.contains("a") || arguments.contains("b")) {
      return InvalidInput("`run` and files were given.",
                          "Give either `run`, or `a` and `b`: files of log-probabilities.");
    }
    return OfRun("run", arguments, context);
  }
  const std::string a = arguments.value("a", ""), b = arguments.value("b", "");
  if (a.empty()) return InvalidInput("Nothing was given to compare.", kHowToRecord);
  if (b.empty() && !IsArrays(a)) return OfRun("a", arguments, context);
  auto arrays =
      mismatch::ReadArrays({a, b, arguments.value("mask", "")}, context.roots, context.cancel);
  // JSON lines without log-probabilities are the log of a training.
  const bool is_log = !arrays && arrays.error().kind == ErrorKind::kNotFound && b.empty() &&
                      a.find(".json") != std::string::npos;
  if (is_log) return OfRun("a", arguments, context);
  if (!arrays) return arrays.error();
  const mismatch::Calls& calls = *arrays;
  return Answer({EscapeControl(b.empty() ? a : a + ", " + b, 400)}, calls, arguments, context);
}

Json Text(const char* description) {
  return {{"type", "string"}, {"minLength", 1}, {"description", description}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "compare_logprobs";
  definition.title = "Trainer against rollout engine (RL)";
  definition.description =
      "Whether a trainer and the engine that samples for it (vLLM, SGLang) give the same "
      "log-probabilities to the same tokens, and by which shape they part. Shapes: stale weights, "
      "temperature, packing, positions, routing, the head's format, other weights, or what 16 bits "
      "must differ. Of a run whose training calls mpnanny.log_mismatch, of a log that prints the "
      "mismatch, or of files of log-probabilities. For a run that broke call diagnose_run.";
  definition.brief =
      "RL: do trainer and rollout engine agree on log-probabilities, and by which shape do they "
      "part (stale weights, temperature, packing, positions, routing, head). Of a run with "
      "mpnanny.log_mismatch, a log, or files.";
  definition.brief_arguments = {{"a", "Trainer's: x.npz#key, .pt, .jsonl"}, {"b", "Rollout's"}};
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"run", runs::RunProperty()},
        {"rank", runs::RankProperty()},
        {"a",
         Text("The trainer's log-probabilities: a file (.npz, .npy, .safetensors, .pt, .jsonl) "
              "or file#key, [tokens], [batch, length] or [steps, batch, length]; or a run.")},
        {"b", Text("The rollout's, for the same tokens; without it in the file of `a`.")},
        {"mask", Text("Not zero where a token counts; by default the files' own `mask`.")},
        {"detail", runs::DetailProperty()}}},
      {"additionalProperties", false}};
  definition.output_schema = ReportSchema();
  definition.command = {.name = "mismatch", .positional = "a b"};
  definition.command.exit_code = [](const Json& structured, const Json&) {
    const Json& verdict = ValueAt(structured, {"verdict"});
    return verdict == "degraded" || verdict == "broken" ? 1 : 0;
  };
  return {std::move(definition), Run};
}

}  // namespace mpnanny::compare_logprobs
