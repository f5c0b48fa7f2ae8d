// The shape of diagnose_run's structuredContent.
#include "engines/diagnosis/answer/report.h"
#include "engines/runs/schema.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::diagnosis {

Json DiagnosisSchema() {
  const Json texts = {{"type", "string"}};
  const Json carrier = runs::ObjectSchema({{"step", runs::IntegerSchema("Step.")},
                                           {"layer", runs::TextSchema("Layer.")},
                                           {"type", runs::TextSchema("Alert type.")}});
  Json first_bad = runs::OptionalObjectSchema(
      {{"step", runs::IntegerSchema("First bad step.")},
       {"phase",
        runs::TextSchema("data, forward, loss, backward, optimizer; null: not known.", true)},
       {"layer", runs::TextSchema("Module or parameter; null: not known.", true)},
       {"what", runs::TextSchema("What was bad, in words.")},
       {"source", runs::TextSchema("file:line of the layer; null: not known.", true)},
       {"place",
        {{"enum", {"producer", "first_seen", "not_known"}},
         {"description", "How well the layer is known."}}},
       {"how", runs::TextSchema("By what it is known.")},
       {"last_clean_sample", runs::IntegerSchema("Last wholly finite sampled step before.", true)},
       {"carriers", runs::ListSchema(carrier, "Who carried the value on, in order of time.")},
       {"carrier_count", runs::IntegerSchema("All of them.")},
       {"operator", runs::TextSchema("As shadow steps measured it.", true)},
       {"precision", {{"enum", {"proven", "excluded", "not_tested"}}}},
       {"cure", {{"type", {"object", "null"}}, {"description", "Lines that FP32 cures."}}}},
      "The first bad moment; null if there is none.");
  first_bad["properties"]["ranks"] = runs::ListSchema(
      {{"type", "integer"}}, "Ranks of a distributed run that saw it, the first 16.");
  const Json hypothesis = runs::ObjectSchema(
      {{"cause", runs::TextSchema("Knowledge case (mpnanny://knowledge/{case}); null: measured, no case fits.", true)},
       {"title", runs::TextSchema("What was measured; of a cause that nothing was measured of, its case's title.")},
       {"confidence", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
       {"basis", {{"enum", {"measured", "recognised"}}, {"description", "Recognised: possible, by signs that others share; at most 0.5."}}},
       {"precision", runs::TextSchema("What was measured of precision; null if nothing was.", true)},
       {"evidence", runs::ListSchema(texts, "What speaks for it, with numbers.")},
       {"against", runs::ListSchema(texts, "What speaks against it.")},
       {"lines", runs::ListSchema(texts, "file:line that shadow steps point at.")},
       {"cases", runs::ListSchema(texts, "The case and those related to it.")},
       {"fix", runs::TextSchema("What to do.")}});
  const Json code_finding = runs::ObjectSchema(
      {{"rule", runs::TextSchema("Rule id; mpnanny://rules/{rule} tells all.")},
       {"severity", {{"enum", {"error", "warning", "info"}}}},
       {"place", runs::TextSchema("file:line.")},
       {"message", runs::TextSchema("What is found.")},
       {"near_producer", {{"type", "boolean"}, {"description", "Within 40 lines of it."}}},
       {"cases", runs::ListSchema(texts, "Cases that explain it.")}});
  const Json log_line = runs::ObjectSchema(
      {{"line", runs::IntegerSchema("From 1.")}, {"text", runs::TextSchema("As it stands there.")}});
  const Json moment = runs::ObjectSchema(
      {{"step", runs::IntegerSchema("Step.")}, {"what", runs::TextSchema("What happened.")}});
  return runs::ObjectSchema(
      {{"verdict", {{"enum", {"healthy", "broken", "degraded", "not_established"}}}},
       {"headline", runs::TextSchema("The verdict and its reason in a sentence.")},
       {"first_bad", first_bad},
       {"log_lines", runs::ListSchema(log_line, "Of a log, the lines that this is about.")},
       {"hypotheses", runs::ListSchema(hypothesis, "Causes, most likely first.")},
       {"hypotheses_left_out", runs::IntegerSchema("Less likely ones that did not fit.")},
       {"shadow", runs::ListSchema(runs::FindingSchema("By shadow steps."), "What they measured.")},
       {"tested", runs::ListSchema(texts, "What the verdict rests on.")},
       {"not_tested", runs::ListSchema(texts, "What nobody looked at.")},
       {"excerpts", runs::ListSchema({{"type", "object"}}, "Named lines of `paths`.")},
       {"observations", runs::ListSchema(texts, "What the record shows, with numbers.")},
       {"code", runs::ListSchema(code_finding, "Static findings in `paths`, at most 3.")},
       {"code_findings", runs::IntegerSchema("All of them.")},
       {"timeline", runs::ListSchema(moment, "In order of time.")},
       {"next_measurement", runs::TextSchema("The cheapest one that would decide.")},
       {"limits", runs::ListSchema(texts, "What this diagnosis cannot see.")},
       {"run", runs::TextSchema("Handle; null for a log.", true)},
       {"asked", runs::TextSchema("Handle asked about, if `run` is another model of it.", true)},
       {"name", runs::TextSchema("Name of the run or of the log.")}});
}

}  // namespace mpnanny::diagnosis
