#include "tools/tool.h"

#include "base/text.h"
#include "engines/comparison/comparison.h"
#include "engines/comparison/health.h"
#include "engines/comparison/report.h"
#include "engines/diagnosis/program.h"
#include "engines/pictures/run_pictures.h"
#include "engines/runs/page.h"
#include "engines/runs/schema.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kTextReserve = 600;

Result<Options> ReadOptions(const Json& arguments) {
  Options options;
  if (const std::string steps = arguments.value("steps", ""); !steps.empty()) {
    MPN_TRY_ASSIGN(auto range, runs::ParseStepRange(steps));
    options.steps = range;
  }
  options.window = arguments.value("window", size_t{0});
  options.metric =
      arguments.value("metric", "loss") == "grad_norm" ? Judged::kGradNorm : Judged::kLoss;
  options.higher_is_better = arguments.value("better", "lower") == "higher";
  options.acceptable = arguments.value("acceptable", options.acceptable);
  options.not_acceptable = arguments.value("not_acceptable", options.not_acceptable);
  if (options.not_acceptable < options.acceptable) {
    return InvalidInput("`not_acceptable` is less than `acceptable`.",
                        "A difference between the two is undecided: acceptable 0.01, "
                        "not_acceptable 0.05.");
  }
  const bool given_a = arguments.contains("final_a"), given_b = arguments.contains("final_b");
  if (given_a != given_b) {
    return InvalidInput("`final_a` and `final_b` belong together: only one was given.");
  }
  if (given_a) {
    options.metric = Judged::kGiven;
    options.given_a = arguments["final_a"].get<double>();
    options.given_b = arguments["final_b"].get<double>();
  }
  return options;
}

// Says which of the two could not be opened.
Error OfSide(const char* which, Error error) {
  error.message = std::string(which) + ": " + error.message;
  return error;
}

// What each run is by itself; of a part of the steps nobody judges that.
Result<Diagnoses> DiagnosesOf(const runs::Source& a, const runs::Source& b, const Options& options,
                              const ToolContext& context) {
  const runs::StepRange all;
  Diagnoses diagnoses;
  if (options.steps.first != all.first || options.steps.last != all.last) return diagnoses;
  for (const auto& [source, into] : {std::pair(&a, &diagnoses.a), std::pair(&b, &diagnoses.b)}) {
    MPN_TRY_ASSIGN(auto health, HealthOf(*source, context));
    *into = std::move(health);
  }
  return diagnoses;
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto options, ReadOptions(arguments));
  auto a = runs::OpenRun(arguments.value("a", ""), context.roots, context.cancel);
  if (!a) return OfSide("a", a.error());
  auto b = runs::OpenRun(arguments.value("b", ""), context.roots, context.cancel);
  if (!b) return OfSide("b", b.error());
  MPN_TRY_ASSIGN(auto diagnoses, DiagnosesOf(*a, *b, options, context));
  MPN_TRY_ASSIGN(auto comparison, Compare(*a, *b, options, diagnoses));
  if (FormatRunHandle(a->run.handle) == FormatRunHandle(b->run.handle)) {
    comparison.mend.reset();
    comparison.verdict = comparison.so_far = Verdict::kUndecided;
    comparison.reasons = {
        "a and b are one and the same run: there is nothing to judge. A bare path means its newest "
        "run; list_runs gives the handles of all."};
  }
  const size_t bytes = runs::AnswerBytes(arguments, context);
  Json json = ComparisonJson(*a, *b, comparison, diagnoses,
                             bytes > kTextReserve ? bytes - kTextReserve : 0);
  std::string text = ComparisonText(json);
  return ToolOutput{std::move(json), std::move(text)};
}

Json ShareProperty(double initial, const std::string& description) {
  return {{"type", "number"},
          {"minimum", 0},
          {"maximum", 100},
          {"default", initial},
          {"description", description}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "compare_runs";
  definition.title = "Compare two runs";
  definition.description =
      "Compares run b with the reference run a (FP32 against BF16, before and after a fix): "
      "whether b is acceptable in its place, whether it mends a, the first step "
      "and layer where they part beyond noise, settings that differ, step time and memory. Works "
      "while they train, and with two seeds, two machines and logs. For the cause of a failure "
      "call diagnose_run on that run.";
  const std::string run = " Handle or database path, as list_runs gives it.";
  definition.brief =
      "Whether run b may replace reference run a (FP32 against BF16, before and after a "
      "fix), and whether it mends a: first step and layer where they part beyond noise, settings "
      "that differ, time, "
      "memory. Also of running trainings and logs. For the cause of a failure: "
      "diagnose_run.";
  definition.brief_arguments = {{"a", "Reference run"},
                                {"b", "Run that is judged"},
                                {"final_a", "Final figure measured elsewhere (accuracy)"},
                                {"acceptable", "b may be worse by this share"}};
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"a", {{"type", "string"}, {"minLength", 1}, {"description", "The reference run." + run}}},
        {"b",
         {{"type", "string"}, {"minLength", 1}, {"description", "The run that is judged." + run}}},
        {"metric",
         {{"type", "string"},
          {"enum", {"loss", "grad_norm"}},
          {"default", "loss"},
          {"description", "The recorded figure that decides."}}},
        {"better",
         {{"type", "string"},
          {"enum", {"lower", "higher"}},
          {"default", "lower"},
          {"description", "Which values of it are the good ones."}}},
        {"final_a",
         {{"type", "number"},
          {"description", "Final figure of a measured elsewhere (accuracy), instead of metric."}}},
        {"final_b", {{"type", "number"}, {"description", "The same of b."}}},
        {"acceptable", ShareProperty(0.01, "b may be worse by this share of a's final figure.")},
        {"not_acceptable", ShareProperty(0.05, "Worse by more than this is not acceptable.")},
        {"window",
         {{"type", "integer"},
          {"minimum", 0},
          {"maximum", 1000000},
          {"default", 0},
          {"description", "Steps of a mean; 0: a twentieth of the common ones, 5 to 200."}}},
        {"steps",
         {{"type", "string"},
          {"description", "\"100..200\", \"100..\" or \"..200\"; default all."}}},
        {"detail", runs::DetailProperty()}}},
      {"required", {"a", "b"}},
      {"additionalProperties", false}};
  definition.output_schema = ComparisonSchema();
  definition.command = {.name = "compare", .positional = "a b"};
  return {std::move(definition), Run, pictures::OfComparison};
}

}  // namespace mpnanny::comparison
