#include "tools/tool.h"

#include "tools/auto_diff/child.h"
#include "tools/auto_diff/question.h"
#include "tools/auto_diff/report.h"
#include "tools/runs/page.h"

namespace mpnanny::auto_diff {
namespace {

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  auto question = ReadQuestion(arguments, context.roots);
  if (!question) return question.error();
  if (!context.allow_exec) {
    return Unavailable(
        "auto_diff runs code of yours, which this server may not.",
        "Start it with --allow-exec (in the client's configuration: \"args\": [\"serve\", "
        "\"--allow-exec\"]), or run `mpnanny diff` in a terminal. The code then runs in a process "
        "of its own, without network, that can write to a temporary folder only.");
  }
  auto answer = RunChild(*question, context);
  if (!answer) return answer.error();
  const size_t bytes = runs::AnswerBytes(arguments, context);
  return ToolOutput{ReportJson(*answer, bytes), ReportText(*answer, bytes)};
}

Json Text(const char* description) { return {{"type", "string"}, {"description", description}}; }

Json Number(const char* description) { return {{"type", "number"}, {"description", description}}; }

Json Texts(const char* description) {
  return {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", description}};
}

Json InputSchema() {
  Json properties = {
      {"model", Text("model.py:build — a function that makes the model, a class, or a module.")},
      {"function", Text("losses.py:giou_loss — a function, or a class made with args/kwargs.")},
      {"code", Text("A snippet: defines one function, class or build(), or is run as a whole with "
                    "the named inputs as variables.")},
      {"config", Text("package:name made at random with kwargs: transformers:GPT2LMHeadModel, "
                      "timm:resnet18.")},
      {"finding", Text("file.py:123 — a suspected line. Inputs are made for the function around "
                       "it; the answer says confirmed, not at these inputs, or cannot be run "
                       "alone.")},
      {"captures", Texts("Two files of mpnanny.diff.capture() or dump_on_error.")},
      {"input", Texts("One word per argument: float16[8,3,224,224]~normal(0,1), int64[2,128]<1000, "
                      "mask=bool[8,128]~bernoulli(0.9), a file (x.pt, x.npy, w.safetensors#key), a "
                      "number. Also ~uniform(a,b) ~lognormal(m,s) ~offset(c) ~constant(c) ~zeros "
                      "~ones ~equal_rows ~max ~arange ~masked.")},
      {"dtype", {{"type", "string"},
                 {"enum", {"bf16", "fp16", "fp8"}},
                 {"default", "bf16"},
                 {"description", "The low precision. fp8: linear layers, simulated."}}},
      {"policy", {{"type", "string"},
                  {"enum", {"cuda-autocast", "cpu-autocast", "pure"}},
                  {"default", "cuda-autocast"},
                  {"description", "What torch.autocast does on CUDA (also without a GPU) or on the "
                                  "CPU; pure: everything in the dtype, model.to(dtype)."}}},
      {"fp8", {{"type", "string"},
               {"enum", {"tensor", "row", "block"}},
               {"default", "tensor"},
               {"description", "What shares a scale in FP8."}}},
      {"backward", {{"type", "boolean"},
                    {"default", true},
                    {"description", "Also the backward pass."}}},
      {"loss", Text("file.py:name — called with the target's result.")},
      {"loss_scale", Number("Fixed; by default found as a GradScaler finds it, in fp16.")},
      {"steps", {{"type", "integer"},
                 {"minimum", 0},
                 {"maximum", 1000},
                 {"default", 0},
                 {"description", "Training steps on the same inputs, beside the first passes."}}},
      {"optimizer", Text("Of torch.optim, by name; adamw by default.")},
      {"lr", Number("Learning rate, 0.001 by default.")},
      {"args", {{"type", "array"}, {"description", "Arguments of build, the class or the config."}}},
      {"kwargs", {{"type", "object"}, {"description", "Keyword arguments of the same."}}},
      {"level", {{"type", "string"},
                 {"enum", {"operators", "modules"}},
                 {"default", "operators"},
                 {"description", "modules: quick, compares outputs of modules only."}}},
      {"rel_warn", Number("Flat limit of the outputs' relative error for degraded.")},
      {"rel_error", Number("The same for broken.")},
      {"device", {{"type", "string"},
                  {"enum", {"cpu", "cuda", "auto"}},
                  {"default", "cpu"},
                  {"description", "Where it runs."}}},
      {"seed", {{"type", "integer"}, {"default", 0}, {"description", "Of the inputs."}}},
      {"root", Text("Folder that imports are made from; the project's by default.")},
      {"python", Text("Interpreter with the training's packages; by default the project's .venv, "
                      "the active environment, or python3.")},
      {"timeout_s", {{"type", "integer"},
                     {"minimum", 1},
                     {"maximum", 1800},
                     {"default", 60},
                     {"description", "Most seconds that the code may run."}}},
      {"memory_mb", {{"type", "integer"},
                     {"minimum", 256},
                     {"maximum", 1048576},
                     {"default", 8192},
                     {"description", "Most memory that it may take."}}},
      {"detail", runs::DetailProperty()}};
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "auto_diff";
  definition.title = "Try it: FP32 against FP16, BF16 or FP8";
  definition.description =
      "Runs a model, a function, a snippet or the function around a suspected line in FP32 and in "
      "FP16/BF16/FP8, follows every operator in FP64, and answers: clean, degraded or broken; the "
      "first operator at fault with file:line and numbers; what FP32 cures. Use it to prove or "
      "refute a suspicion (`finding`) before calling it an error. Needs --allow-exec; the code runs "
      "confined. To only read code call static_check; for a run that went wrong diagnose_run.";
  definition.input_schema = InputSchema();
  definition.output_schema = ReportSchema();
  definition.command = {.name = "diff", .positional = ""};
  definition.command.exit_code = [](const Json& structured, const Json&) {
    const Json& verdict = ValueAt(structured, {"verdict"});
    return verdict == "broken" || verdict == "degraded" ? 1 : 0;
  };
  definition.may_go_on = true;
  definition.idempotent = true;
  return {std::move(definition), Run};
}

}  // namespace mpnanny::auto_diff
