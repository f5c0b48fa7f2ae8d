#include "tools/tool.h"

#include <string>
#include <utility>
#include <vector>

#include "engines/python_code/child.h"
#include "engines/python_code/question.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/page.h"
#include "tools/choose_precision/report.h"
#include "tools/choose_precision/run_report.h"

namespace mpnanny::choose_precision {
namespace {

Result<Device> DeviceOf(const Json& arguments, const runs::Source& source,
                        const ToolContext& context) {
  if (const std::string asked = arguments.value("device", ""); !asked.empty()) {
    return FindDevice(context.data, asked);
  }
  auto environment = ParseJson(source.run.environment.empty() ? "{}" : source.run.environment);
  return RecordedDevice(context.data, environment ? *environment : Json::object());
}

Result<ToolOutput> OfRun(const Json& arguments, const ToolContext& context) {
  for (const char* name : {"model", "config", "input", "batches", "loss", "ways"}) {
    if (!arguments.contains(name)) continue;
    return InvalidInput(
        "`" + std::string(name) + "` does not go with `run`: a recorded run is read, not run.",
        "Leave it out, or give a model instead of the run.");
  }
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  MPN_TRY_ASSIGN(auto device, DeviceOf(arguments, source, context));
  MPN_TRY_ASSIGN(auto recorded, ReadRecorded(source));
  const RunPlan plan = PlanOfRun(recorded, device);
  const size_t bytes = runs::AnswerBytes(arguments, context);
  const std::string run = runs::ShownHandle(source);
  return ToolOutput{RunPlanJson(run, recorded, device, plan, bytes),
                    RunPlanText(run, recorded, device, plan, bytes)};
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  if (arguments.contains("run")) return OfRun(arguments, context);
  MPN_TRY_ASSIGN(auto question,
                 python_code::ReadQuestion("mpnanny.precision", {"model", "config"},
                                           "Give `model` (model.py:build), `config` "
                                           "(transformers:GPT2LMHeadModel) or a recorded `run`.",
                                           arguments, context.roots));
  if (!context.allow_exec) {
    return python_code::MayNotRun("choose_precision", "precision", context);
  }
  question.gpu = python_code::GpuOf(arguments.value("device", "auto"));
  MPN_TRY_ASSIGN(auto answer, python_code::RunChild(question, AnswerSchema(), context));
  const size_t bytes = runs::AnswerBytes(arguments, context);
  const std::string library = arguments.value("library", "pytorch");
  return ToolOutput{ReportJson(answer, library, bytes), ReportText(answer, library, bytes)};
}

Json Text(const char* description) { return {{"type", "string"}, {"description", description}}; }

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

Json Choice(std::vector<std::string> words, const char* description) {
  return {{"type", "string"},
          {"enum", words},
          {"default", words.front()},
          {"description", description}};
}

Json InputSchema() {
  Json properties = {
      {"model", Text("model.py:build, a function that makes the model, or a class.")},
      {"config", Text("Made at random: transformers:GPT2LMHeadModel, timm:resnet18.")},
      {"run", Text("Instead of a model: a run with shadow steps; nothing is executed.")},
      {"input", Texts("A word per argument, as auto_diff takes them.")},
      {"args", {{"type", "array"}, {"description", "Of build, class or config."}}},
      {"kwargs", {{"type", "object"}, {"description", "The same."}}},
      {"device",
       Text("h100, a100, v100, t4, rtx4090, mi300x, ascend910b …; default this machine. cuda: "
            "its GPU, measured there (needs --allow-gpu).")},
      {"goal", Choice({"balanced", "safest", "fastest", "smallest"}, "What counts.")},
      {"ways", Texts("Of fp32, tf32, bf16-autocast, fp16-autocast, bf16-weights, fp8-linear.")},
      {"loss", Text("file.py:name, called with the result.")},
      {"try", Integer(0, 100000, 0, "Steps to train FP32, FP32 with other draws and the plan.")},
      {"batches", Text("file.py:name; name(step), or name(), gives a step's inputs.")},
      {"library", Choice({"pytorch", "accelerate", "lightning", "transformers", "deepspeed",
                          "fsdp2", "torchao", "transformer_engine", "all"},
                         "Whose code is shown.")},
      {"optimizer", Text("Of torch.optim; adamw by default.")},
      {"lr", {{"type", "number"}, {"description", "Learning rate."}}},
      {"fp8", Choice({"tensor", "row", "block"}, "What shares a scale.")},
      {"seed", {{"type", "integer"}, {"default", 0}, {"description", "Of the inputs."}}},
      {"root", Text("Folder to import from; the project's by default.")},
      {"python", Text("Interpreter; the project's .venv by default.")},
      {"timeout_s", Integer(1, 7200, 600, "Seconds that the code may run.")},
      {"memory_mb", Integer(256, 1 << 20, 8192, "Memory that it may take.")},
      {"detail", runs::DetailProperty()}};
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "choose_precision";
  definition.title = "Which layer in which format, measured";
  definition.description =
      "Says whether a model may train in BF16, FP16, TF32 or FP8 on a GPU and which layers stay in "
      "FP32: measures loss and gradients against FP32 and searches the smallest set of layers that "
      "has to stay wide. Also loss scale, optimizer states, memory, alternatives, code. `try` "
      "trains the plan beside FP32. Needs --allow-exec; the code runs confined. For one operator "
      "or line call auto_diff; for a run that went wrong diagnose_run.";
  definition.brief =
      "Which layers of a model stay in FP32 when it trains in BF16, FP16, TF32 or FP8 on a "
      "GPU, measured; loss scale, optimizer states, memory, code. `try` trains the plan "
      "beside FP32. Needs --allow-exec; confined. For one operator or line: auto_diff; for "
      "a run that went wrong: diagnose_run.";
  definition.brief_arguments = {
      {"model", "model.py:build, or a class"},
      {"run", "A run with shadow steps instead of a model"},
      {"input", "As auto_diff"},
      {"device", "h100, a100, v100, t4, mi300x …; default this machine"},
      {"ways", "Of fp32, tf32, bf16-autocast, fp16-autocast, bf16-weights, fp8-linear"},
      {"batches", "file.py:name; name(step) or name() gives inputs"},
      {"library", "pytorch, lightning, deepspeed, fsdp2 …"}};
  definition.input_schema = InputSchema();
  definition.output_schema = ReportSchema();
  definition.command = {.name = "precision", .positional = ""};
  definition.command.exit_code = [](const Json& structured, const Json&) {
    const bool refuted = structured.contains("refuted");
    return refuted && ValueAt(structured, {"way"}) == "fp32" ? 1 : 0;
  };
  definition.may_go_on = true;
  definition.runs_code = true;
  return {std::move(definition), Run};
}

}  // namespace mpnanny::choose_precision
