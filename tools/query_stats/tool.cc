#include "tools/tool.h"

#include <chrono>

#include "base/text.h"
#include "engines/pictures/run_pictures.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/page.h"
#include "engines/runs/schema.h"
#include "engines/runs/show.h"
#include "tools/query_stats/distribution_report.h"
#include "tools/query_stats/findings_report.h"
#include "tools/query_stats/log_figure.h"
#include "tools/query_stats/ranks_report.h"
#include "tools/query_stats/reading.h"
#include "tools/query_stats/report.h"

namespace mpnanny::query_stats {
namespace {

// A client waits for this answer; what is not read until then is told and can be asked for.
constexpr std::chrono::seconds kTimeLimit{8};
// Who names no layers asks which matter: a model has thousands of tensors.
constexpr int64_t kTopUnasked = 10;

std::vector<std::string> Words(const Json& arguments, const char* key) {
  std::vector<std::string> list;
  for (const Json& word : arguments.value(key, Json::array())) list.push_back(word);
  return list;
}

Grouping GroupingOf(const std::string& word) {
  return word == "slot"    ? Grouping::kSlot
         : word == "block" ? Grouping::kBlock
         : word == "step"  ? Grouping::kStep
         : word == "ranks" ? Grouping::kRanks
                           : Grouping::kLayer;
}

Order OrderOf(const std::string& word) {
  return word == "largest"    ? Order::kLargest
         : word == "smallest" ? Order::kSmallest
         : word == "growth"   ? Order::kGrowth
         : word == "model"    ? Order::kModel
                              : Order::kWorst;
}

// "Which are the largest?" is asked about what the model computes. An optimizer's moments are sums
// of gradients and of their squares, on scales of their own.
void LeaveOutStates(Question& question, ReportOptions& options) {
  const bool of_values = question.metric->of_tensor && question.metric->unit == "value";
  if (!question.top || !of_values || question.kinds != kAllKinds) return;
  question.kinds &= ~(1U << runs::kOptimizerState);
  options.notes.push_back(
      "Optimizer states are left out of the order; `kinds` optimizer_state shows them.");
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  source.database->LimitTime(kTimeLimit);

  Question question;
  if (const std::string steps = arguments.value("steps", ""); !steps.empty()) {
    MPN_TRY_ASSIGN(auto range, runs::ParseStepRange(steps));
    question.steps = range;
  }
  const auto kinds = Words(arguments, "kinds");
  if (!kinds.empty()) question.kinds = 0;
  for (const std::string& kind : kinds) question.kinds |= 1U << KindFromName(kind).value_or(31);
  question.grouping = GroupingOf(arguments.value("aggregate", "layer"));
  question.order = OrderOf(arguments.value("order", "worst"));
  question.thorough = arguments.value("detail", "concise") == "full";
  if (arguments.contains("top")) {
    question.top = arguments["top"].get<int64_t>();
  } else if (!arguments.contains("layers") &&
             LowerCase(arguments.value("metric", "")) != "findings") {
    question.top = kTopUnasked;
    question.top_unasked = true;
  }

  ReportOptions options;
  options.bytes = runs::AnswerBytes(arguments, context);
  options.cursor = arguments.value("cursor", "");
  if (arguments.contains("max_points")) options.max_points = arguments["max_points"].get<int64_t>();

  const std::string name = arguments.value("metric", "");
  std::optional<NamedMetric> named;
  const bool findings = LowerCase(name) == "findings";
  std::unique_ptr<LogFigure> of_log;
  if (LowerCase(name).starts_with(kLogPrefix)) {
    MPN_TRY_ASSIGN(of_log, FindLogFigure(source, name));
    named = NamedMetric{&of_log->metric, std::nullopt};
    question.metric = named->metric;
  } else if (LowerCase(name) != "distribution" && !findings) {
    MPN_TRY_ASSIGN(auto found, FindMetric(name.empty() ? "absmax" : name));
    named = found;
    options.all_figures = name.empty();
    question.metric = named->metric;
    if (named->kind) question.kinds = 1U << *named->kind;
    LeaveOutStates(question, options);
  }
  const auto patterns = Words(arguments, "layers");
  if (question.metric && question.metric->of_step) {
    if (!patterns.empty()) {
      options.notes.push_back("`layers` does not apply: " + std::string(question.metric->name) +
                              " is of the step.");
    }
  } else {
    auto layers = ChooseLayers(source, patterns);
    if (!layers) return layers.error();
    question.layers = *std::move(layers);
    options.notes.insert(options.notes.end(), question.layers.notes.begin(),
                         question.layers.notes.end());
    const bool merged = findings || (question.metric && question.metric->of_profile) ||
                        question.grouping == Grouping::kRanks;
    if (!source.others.empty() && !merged) {
      options.notes.push_back("Tensors are those of rank " + std::to_string(source.run.rank) +
                              ", which was bad first or is the first; `rank` asks for another.");
    }
  }
  if (findings) return ReportFindings(source, question, options);
  if (question.grouping == Grouping::kRanks) return ReportRanks(source, question, options);
  if (!named) return ReportDistribution(source, question, options);
  if (of_log) {
    Answer of_name = ReadLogFigure(*of_log, question);
    return Report(source, question, of_name, options);
  }
  MPN_TRY_ASSIGN(auto answer, AnswerQuestion(source, question));
  return Report(source, question, answer, options);
}

Json InputSchema() {
  Json metrics =
      "What to show: a column of tensor_stats (absmax, absmin, rms, mean, nan …), a "
      "share (below_fp16_share, nonfinite_share, zeros_share, frozen_share …), "
      "peak_to_rms, range, or of the step loss, lr, loss_scale, grad_norm, duration, "
      "peak_memory; of shadow steps shadow_error, shadow_amplification, fp16_error, "
      "bf16_error, e4m3_error, e5m2_error of layers, or \"findings\"; "
      "of a log \"log:NAME\", a number that it prints under that name; "
      "\"distribution\" for the exponents of one tensor. Without it: "
      "absmax, with other figures beside it where one step is asked about.";
  std::vector<std::string> kinds;
  for (int64_t kind = 0; kind < 7; ++kind) kinds.push_back(runs::KindName(kind));
  return {
      {"type", "object"},
      {"properties",
       {{"run", {{"type", "string"}, {"minLength", 1}, {"description", runs::kRunArgument}}},
        {"rank", runs::RankProperty()},
        {"metric", {{"type", "string"}, {"description", std::move(metrics)}}},
        {"layers",
         {{"type", "array"},
          {"items", {{"type", "string"}}},
          {"description",
           "Layer names, globs (\"*attn*\"), regular expressions between slashes "
           "(\"/^blocks\\.[0-3]\\./\") or a module for its parts (\"blocks.3\")."}}},
        {"kinds",
         {{"type", "array"},
          {"items", {{"type", "string"}, {"enum", kinds}}},
          {"description", "Only these kinds of tensor."}}},
        {"steps",
         {{"type", "string"},
          {"description", "\"100..200\" (both ends in), \"100..\", \"..200\" or \"100\"."}}},
        {"aggregate",
         {{"type", "string"},
          {"enum", {"layer", "slot", "block", "step", "ranks"}},
          {"default", "layer"},
          {"description",
           "What one series is of: a layer (its outputs and calls joined), each slot by itself, a "
           "block (\"blocks.3\"), everything at a step, or a layer over all ranks (points "
           "[step, median, min, max], and which ranks stand apart)."}}},
        {"top",
         {{"type", "integer"},
          {"minimum", 1},
          {"maximum", 1000},
          {"description",
           "Only the first so many in `order`: \"which layers are largest?\" 10 where no layers "
           "are named."}}},
        {"order",
         {{"type", "string"},
          {"enum", {"worst", "largest", "smallest", "growth", "model"}},
          {"default", "worst"},
          {"description",
           "Which series come first; growth: the late points over the early ones; model: as the "
           "layers stand in the model."}}},
        {"max_points",
         {{"type", "integer"},
          {"minimum", 2},
          {"maximum", 2000},
          {"description", "Points a series; extremes are kept. Without it: what fits."}}},
        {"cursor", {{"type", "string"}, {"description", "next_cursor of the answer before."}}},
        {"detail",
         {{"type", "string"},
          {"enum", {"concise", "full"}},
          {"default", "concise"},
          {"description",
           "\"full\" looks at every sampled step, as far as its time goes, and allows an answer "
           "of about 64 KB instead of 8 KB."}}}}},
      {"required", {"run"}},
      {"additionalProperties", false}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "query_stats";
  definition.title = "Ask for a run's statistics";
  definition.description =
      "Shows a metric of one monitored run over its steps: of layers, blocks or all, the top "
      "layers (largest absmax, worst underflow, fastest growth), loss, lr, loss scale, or a "
      "tensor's distribution against the limits of FP16, BF16 and FP8. For the cause of a failure "
      "call diagnose_run first, for alerts query_alerts, for the run as a whole run_summary.";
  definition.brief =
      "A metric of a run over its steps: of layers, the top layers (largest, worst "
      "underflow, fastest growth), loss, lr, loss scale, or a tensor's distribution against "
      "FP16, BF16 and FP8. For the cause of a failure: diagnose_run first; for alerts: "
      "query_alerts; for the run as a whole: run_summary.";
  definition.brief_arguments = {
      {"metric",
       "absmax, rms, mean, nan, below_fp16_share, frozen_share …; loss, lr, loss_scale, grad_norm; "
       "shadow_error, bf16_error, findings; distribution"},
      {"layers", "Names, globs (*attn*), /regex/ or a module"},
      {"aggregate", "What a series is of"}};
  definition.input_schema = InputSchema();
  definition.output_schema = OutputSchema();
  definition.command = {.name = "stats",
                        .positional = "",
                        .options = {{"run", "db"}},
                        .aliases = {{"steps", "step"}},
                        .from_stdin = "run"};
  return {std::move(definition), Run, pictures::OfSeries};
}

}  // namespace mpnanny::query_stats
