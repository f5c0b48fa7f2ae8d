#include "tools/tool.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/temporary_folder.h"
#include "engines/exported/model_file.h"
#include "engines/exported/worker.h"
#include "engines/python_code/child.h"
#include "engines/python_code/question.h"
#include "engines/runs/page.h"
#include "tools/auto_diff/report.h"

namespace mpnanny::auto_diff {
namespace {

// Of a file of TorchScript or torch.export.
Result<Json> AskOfFile(const Json& arguments, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto question, exported::ReadQuestion("diff", arguments, context.roots));
  if (!context.allow_exec) {
    return python_code::MayNotRun("auto_diff", "diff", context);
  }
  MPN_TRY_ASSIGN(const auto folder, TemporaryFolder::Create());
  return exported::AskWorker(question, folder.path(), AnswerSchema(), context);
}

constexpr std::chrono::seconds kCompileTime{400};
constexpr double kSearchShare = 0.5;  // of the time, after which nothing new is begun

bool IsOfFile(const Json& arguments) {
  return arguments.contains("model") &&
         exported::IsModelFile(arguments["model"].get<std::string>()) &&
         !arguments.contains("function") && !arguments.contains("code") &&
         !arguments.contains("config") && !arguments.contains("finding") &&
         !arguments.contains("captures");
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  const size_t bytes = runs::AnswerBytes(arguments, context);
  if (IsOfFile(arguments)) {
    MPN_TRY_ASSIGN(auto answer, AskOfFile(arguments, context));
    return ToolOutput{ReportJson(answer, bytes), ReportText(answer, bytes)};
  }
  MPN_TRY_ASSIGN(
      auto question,
      python_code::ReadQuestion(
          "mpnanny.diff", {"model", "function", "code", "config", "finding", "captures"},
          "Give `model` (model.py:build, or an exported model.pt2), `function` "
          "(losses.py:my_loss), "
          "`code`, `config` "
          "(transformers:GPT2LMHeadModel), `finding` (file.py:123) or `captures` (two files).",
          arguments, context.roots));
  if (!context.allow_exec) {
    return python_code::MayNotRun("auto_diff", "diff", context);
  }
  if (arguments.value("policy", "") == "compile") {
    // A compiler takes seconds a graph, and a search compiles parts of it again and again.
    if (!arguments.contains("timeout_s")) question.seconds = kCompileTime;
    question.request["seconds"] = question.seconds.count() * kSearchShare;
  }
  question.gpu = python_code::GpuOf(arguments.value("device", "cpu"));
  MPN_TRY_ASSIGN(auto answer, python_code::RunChild(question, AnswerSchema(), context));
  return ToolOutput{ReportJson(answer, bytes), ReportText(answer, bytes)};
}

Json Text(const char* description) { return {{"type", "string"}, {"description", description}}; }

Json Number(const char* description) { return {{"type", "number"}, {"description", description}}; }

Json Texts(const char* description) {
  return {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", description}};
}

Json Integer(int64_t least, int64_t most, int64_t value, const char* description) {
  return {{"type", "integer"},
          {"minimum", least},
          {"maximum", most},
          {"default", value},
          {"description", description}};
}

// One of these words; without it the code decides.
Json Word(std::vector<std::string> words, const char* description) {
  return {{"type", "string"}, {"enum", words}, {"description", description}};
}

Json Choice(std::vector<std::string> words, const char* description) {
  return {{"type", "string"},
          {"enum", words},
          {"default", words.front()},
          {"description", description}};
}

Json InputSchema() {
  Json properties = {
      {"model", Text("model.py:build, a function that makes the model, or a class; or a file of "
                     "torch.export (.pt2) or TorchScript (.pt).")},
      {"function", Text("losses.py:giou_loss, or a class.")},
      {"code", Text("A snippet: one function, or run whole with the inputs as variables.")},
      {"config", Text("Made at random: transformers:GPT2LMHeadModel, timm:resnet18.")},
      {"finding", Text("file.py:123, a suspected line; inputs are made for its function.")},
      {"captures", Texts("Two files of mpnanny.diff.capture().")},
      {"input", Texts("A word per argument: float16[8,3]~normal(0,1), int64[2,8]<1000, "
                      "mask=bool[8]~bernoulli(0.9), a file (x.pt, w.safetensors#key), a number, "
                      "(3,4), list(W; W), dict(x=W; y=W). "
                      "Also ~uniform(a,b) ~lognormal(m,s) ~offset(c) ~constant(c) ~zeros ~ones "
                      "~equal_rows ~max ~arange. A function without any gets some by trying.")},
      {"args",
       {{"type", "array"},
        {"description", "Of build, class or config: 64, (3,4), None, or n=64 for one by name."}}},
      {"kwargs", {{"type", "object"}, {"description", "The same."}}},
      {"dtype", Word({"bf16", "fp16", "fp8"},
                     "fp8: linear layers, simulated. Default: as the code says, else bf16.")},
      {"policy",
       Word({"cuda-autocast", "cpu-autocast", "pure", "compile"},
            "What autocast does on CUDA (no GPU needed) or CPU; pure: model.to(dtype). Default: as "
            "the code says, else cuda-autocast. compile: eager against torch.compile instead.")},
      {"fp8", Choice({"tensor", "row", "block"}, "What shares a scale.")},
      {"backward",
       {{"type", "boolean"},
        {"default", true},
        {"description", "The backward pass is compared, too."}}},
      {"loss", Text("file.py:name, called with the result.")},
      {"loss_scale", Number("Default: as a GradScaler finds it, in fp16.")},
      {"steps", Integer(0, 1000, 0, "Training steps beside the first pass.")},
      {"optimizer", Text("Of torch.optim; adamw by default.")},
      {"lr", Number("Learning rate.")},
      {"level", Choice({"operators", "modules"}, "modules: quick, module outputs only.")},
      {"rel_warn", Number("Flat limit of an output's error: degraded.")},
      {"rel_error", Number("The same: broken.")},
      {"device", Choice({"cpu", "cuda", "auto"}, "Where it runs; cuda needs --allow-gpu.")},
      {"seed", {{"type", "integer"}, {"default", 0}, {"description", "Of the inputs."}}},
      {"root", Text("Folder to import from; the project's by default.")},
      {"python", Text("Interpreter; the project's .venv by default.")},
      {"timeout_s",
       {{"type", "integer"},
        {"minimum", 1},
        {"maximum", 1800},
        {"description", "Seconds that the code may run: 60, with policy compile 400."}}},
      {"memory_mb", Integer(256, 1 << 20, 8192, "Memory that it may take.")},
      {"detail", runs::DetailProperty()}};
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "auto_diff";
  definition.title = "Try it: FP32 against FP16, BF16 or FP8";
  definition.description =
      "Runs a model, a function, a snippet or the function around a suspected line in FP32 and in "
      "FP16/BF16/FP8 and follows every operator in FP64: clean, degraded or broken; the first "
      "operator at fault with file:line and numbers; what FP32 cures. Use it to prove or refute a "
      "suspicion (`finding`, `code`) before calling it an error. Needs --allow-exec; the code runs "
      "confined. To only read code call static_check; for a run that went wrong diagnose_run.";
  definition.brief =
      "Runs a model, a function, a snippet or the function around a suspected line in FP32 "
      "and in FP16/BF16/FP8: first operator at fault, file:line, numbers, what FP32 cures. "
      "Proves or refutes a suspicion. Needs --allow-exec; confined. To only read code: "
      "static_check; for a run that went wrong: diagnose_run.";
  definition.brief_arguments = {
      {"model", "model.py:build, a class, or a file: .pt2, TorchScript .pt"},
      {"function", "losses.py:giou_loss, or a class"},
      {"code", "One function, or a snippet over the inputs"},
      {"config", "transformers:GPT2LMHeadModel, timm:resnet18; random weights"},
      {"finding", "file.py:123"},
      {"captures", "Two files of mpnanny.diff.capture()"},
      {"input",
       "One each argument: float16[8,3]~normal(0,1), int64[2,8]<1000, mask=bool[8], x.pt, "
       "w.safetensors#key, 0.5"},
      {"policy", "pure: model.to(dtype); compile: torch.compile"}};
  definition.input_schema = InputSchema();
  definition.output_schema = ReportSchema();
  definition.command = {.name = "diff", .positional = ""};
  definition.command.extra_options = {
      {"compile", {{"type", "boolean"}, {"description", "The same as --policy compile."}}}};
  definition.command.shorthands = {{"compile", {{"policy", "compile"}}}};
  definition.command.exit_code = [](const Json& structured, const Json&) {
    const Json& proof = ValueAt(structured, {"proof", "result"});
    if (proof.is_string()) return proof == "confirmed" ? 1 : 0;
    const Json& verdict = ValueAt(structured, {"verdict"});
    return verdict == "broken" || verdict == "degraded" ? 1 : 0;
  };
  definition.may_go_on = true;
  definition.runs_code = true;
  return {std::move(definition), Run};
}

}  // namespace mpnanny::auto_diff
