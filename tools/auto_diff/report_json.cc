#include <string>
#include <utility>

#include "engines/python_code/answer_form.h"
#include "engines/python_code/fields.h"
#include "engines/runs/schema.h"
#include "tools/auto_diff/report.h"

namespace mpnanny::auto_diff {
namespace {

Json Schema(std::initializer_list<std::pair<const char*, Json>> properties) {
  Json object = {{"type", "object"}, {"properties", Json::object()}};
  for (const auto& [name, schema] : properties) object["properties"][name] = schema;
  return object;
}

Json Described(Json schema, const char* description) {
  schema["description"] = description;
  return schema;
}

Json FindingSchema() {
  return Schema({
      {"op", runs::TextSchema("The operator, aten.softmax.int.")},
      {"module", runs::TextSchema("Its name in named_modules(), \"\" outside of modules.")},
      {"source", runs::TextSchema("file:line.")},
      {"phase", runs::TextSchema("forward or backward.")},
      {"kind", {{"enum", {"range", "rounding"}}}},
      {"what",
       runs::TextSchema("What was measured: range, undefined, amplified, flushed, integers, "
                        "lost_change, clipped, decision, whole_numbers, spread, raised, "
                        "input, output.")},
      {"local", runs::NumberSchema("Relative L2 error that the operator itself adds.")},
      {"accumulated", runs::NumberSchema("Relative L2 error of its result against FP64.")},
      {"share", runs::NumberSchema("Share of the elements.")},
      {"precision", runs::TextSchema("proven: a wider dtype cures it; excluded: FP64 has it too; "
                                     "not_tested.")},
      {"operands", {{"type", "array"}, {"description", "[held, exact] of the first bad element."}}},
      {"grows", Described({{"type", "object"}},
                          "Of whole numbers: the operator (op, module, source) that makes the "
                          "largest error of it, and the error.")},
  });
}

}  // namespace

Json ReportJson(const Json& answer, size_t bytes) {
  return python_code::Shortened(answer, bytes, {"findings", "contributors", "dims", "layers"});
}

// Of the process that ran the code, which may give anything: rows have their types, too.
const Json& AnswerSchema() {
  static const Json& schema = *new Json([] {
    using python_code::RowSchema;
    using python_code::RowsSchema;
    Json made = ReportSchema();
    const Json finding =
        RowSchema({"op", "module", "source", "phase", "what", "dtype", "precision"},
                  {"local", "accumulated", "error_in", "share", "magnitude", "count"});
    Json& fields = made["properties"];
    fields["first_bad"] = finding;
    fields["first_bad"]["properties"]["kind"] = {{"enum", {"range", "rounding"}}};
    fields["first_bad"]["properties"]["grows"] = RowSchema({"op", "module", "source"}, {"error"});
    fields["findings"] = {{"type", "array"}, {"items", fields["first_bad"]}};
    fields["contributors"] =
        RowsSchema({"op", "module", "source", "phase"}, {"local", "accumulated", "share"});
    fields["output"] =
        RowsSchema({"name", "dtype"}, {"error", "max_error", "expected", "nonfinite", "flushed"});
    fields["loss"] = RowSchema({}, {"fp32", "low", "reference", "error"});
    fields["gradients"] = RowSchema({}, {"error", "loss_scale"});
    fields["gradients"]["properties"]["worst"] = RowsSchema({"name", "dtype"}, {"error"});
    fields["steps"] = RowsSchema({}, {"step", "fp32", "low"});
    fields["layers"] = RowsSchema({"module", "dtype"},
                                  {"operators", "local", "accumulated", "absmax", "nonfinite"});
    fields["dims"] = RowsSchema({"what"}, {"dim", "size", "imbalance", "absorbed"});
    fields["ill_conditioned"] = RowsSchema({"op", "source", "kind"}, {"error"});
    fields["inputs"] = RowsSchema({"name", "words", "dtype"}, {});
    for (const char* key : {"value", "way"}) {
      fields["first_bad"]["properties"][key] = {{"type", "string"}};
    }
    fields["compile"] = RowSchema({"stage", "nearer"}, {"graphs", "parted", "compared"});
    fields["compile"]["properties"]["switch"] =
        RowSchema({"what"}, {"error_before", "error_after"});
    fields["compile"]["properties"]["switch"]["type"] = {"object", "null"};
    fields["compile"]["properties"]["graph_breaks"] = RowsSchema({"source", "reason"}, {});
    fields["proof"]["required"] = {"line", "result"};
    return made;
  }());
  return schema;
}

Json ReportSchema() {
  const Json number = {{"type", {"number", "string", "null"}}};
  const Json text = {{"type", "string"}};
  const Json texts = {{"type", "array"}, {"items", text}};
  const Json rows = {{"type", "array"}, {"items", {{"type", "object"}}}};
  const Json object = {{"type", "object"}};
  Json schema = Schema({
      {"verdict", {{"enum", {"clean", "degraded", "broken", "not_established"}}}},
      {"target", text},
      {"dtype", text},
      {"policy", text},
      {"chosen_by", Described(texts, "Where nobody chose dtype or policy: the code's lines.")},
      {"policies_tried", Described(texts, "Where the code names no device before it runs.")},
      {"mode", {{"enum", {"native", "emulated"}}}},
      {"emulated", Described(texts, "What stands in for the device.")},
      {"first_bad", Described(FindingSchema(), "The first operator at fault.")},
      {"findings", Described(rows, "The others, as first_bad, worst first.")},
      {"contributors", Described(rows,
                                 "Operators that round most: module, op, source, local, "
                                 "accumulated, share of all rounding.")},
      {"keep_fp32", Described(texts, "Modules whose FP32 cures it.")},
      {"cure", Described(Schema({{"lines", texts},
                                 {"what", text},
                                 {"error_before", number},
                                 {"error_after", number}}),
                         "Lines that have to be computed in `what`.")},
      {"output", Described(rows, "name, error, expected: what roundings alone add up to.")},
      {"loss", Schema({{"fp32", number}, {"low", number}, {"reference", number}})},
      {"gradients", Schema({{"error", number}, {"worst", rows}, {"loss_scale", number}})},
      {"steps", Described(rows, "step, fp32, low: losses of the training steps.")},
      {"layers", Described(rows, "module, operators, local, accumulated, absmax, nonfinite.")},
      {"dims", Described(rows, "Inputs of the worst operators: dim, size, imbalance, absorbed.")},
      {"ill_conditioned", Described(rows, "Wrong in FP32 already: op, source, error.")},
      {"proof", Schema({{"line", text},
                        {"result",
                         {{"enum",
                           {"confirmed", "not_at_these_inputs", "not_in_low_precision",
                            "cannot_be_run_alone"}}}},
                        {"input", texts},
                        {"tried", rows},
                        {"missing", texts}})},
      {"compile", Described(object,
                            "Of policy compile: stage, nearer (to FP64), switch, graphs, "
                            "graph_breaks.")},
      {"operators", number},
      {"operators_in_low", Described(number, "Of these, that met the low dtype.")},
      {"inputs", rows},
      {"limits", Described(texts, "What was not looked at.")},
      {"computed_by", Described(text, "Who says so: the process that ran the code.")},
  });
  schema["required"] = {"verdict"};
  return schema;
}

}  // namespace mpnanny::auto_diff
