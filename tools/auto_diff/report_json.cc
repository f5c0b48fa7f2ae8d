#include <string>
#include <utility>

#include "tools/auto_diff/finding_text.h"
#include "tools/auto_diff/report.h"
#include "tools/runs/schema.h"

namespace mpnanny::auto_diff {
namespace {

// The lists that grow with the target; a page is cut from the last one of them first.
constexpr const char* kLists[] = {"findings", "contributors", "dims", "layers"};

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
      {"what", runs::TextSchema("What was measured: range, undefined, amplified, flushed, integers, "
                                "lost_change, clipped, decision, spread, raised, output.")},
      {"local", runs::NumberSchema("Relative L2 error that the operator itself adds.")},
      {"accumulated", runs::NumberSchema("Relative L2 error of its result against FP64.")},
      {"share", runs::NumberSchema("Share of the elements.")},
      {"precision", runs::TextSchema("proven: a wider dtype cures it; excluded: FP64 has it too; "
                                     "not_tested.")},
      {"operands", {{"type", "array"}, {"description", "[held, exact] of the first bad element."}}},
  });
}

}  // namespace

Json ReportJson(const Json& answer, size_t bytes) {
  Json shown = answer;
  for (size_t round = 0; round < 64 && DumpJson(shown).size() > bytes; ++round) {
    bool cut = false;
    for (size_t at = std::size(kLists); at-- > 0 && !cut;) {
      const auto list = shown.find(kLists[at]);
      if (list == shown.end() || !list->is_array() || list->empty()) continue;
      const size_t keep = list->size() / 2;
      const auto left_out = static_cast<int64_t>(list->size() - keep);
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(keep), list->end());
      const std::string count = std::string(kLists[at]) + "_left_out";
      shown[count] = shown.value(count, int64_t{0}) + left_out;
      cut = true;
    }
    if (!cut) break;
  }
  return shown;
}

Json ReportSchema() {
  const Json row = Schema({{"module", runs::TextSchema("Name, or file:line outside of modules.")},
                           {"op", runs::TextSchema("Operator.")},
                           {"source", runs::TextSchema("file:line.")},
                           {"local", runs::NumberSchema("Error added here.")},
                           {"accumulated", runs::NumberSchema("Error of the result.")},
                           {"share", runs::NumberSchema("Share of all rounding.")}});
  const Json end = Schema({{"name", runs::TextSchema("Name of the tensor.")},
                           {"error", runs::NumberSchema("Relative L2 error against FP64.")},
                           {"expected", runs::NumberSchema("What the roundings add up to if nothing "
                                                           "amplifies them.")}});
  const Json texts = {{"type", "string"}};
  Json schema = Schema({
      {"verdict", {{"enum", {"clean", "degraded", "broken", "not_established"}}}},
      {"target", runs::TextSchema("What was run.")},
      {"dtype", runs::TextSchema("fp16, bf16 or fp8.")},
      {"policy", runs::TextSchema("cuda-autocast, cpu-autocast or pure.")},
      {"mode", {{"enum", {"native", "emulated"}}}},
      {"emulated", runs::ListSchema(texts, "What stands in for the device.")},
      {"first_bad", Described(FindingSchema(), "The first operator at fault.")},
      {"findings", runs::ListSchema(FindingSchema(), "The others, worst first.")},
      {"contributors", runs::ListSchema(row, "Operators that round most.")},
      {"keep_fp32", runs::ListSchema(texts, "Modules whose FP32 cures it.")},
      {"cure", Schema({{"lines", runs::ListSchema(texts, "file:line, all of them needed.")},
                       {"what", runs::TextSchema("float32 or float64.")},
                       {"error_before", runs::NumberSchema("Error as it is.")},
                       {"error_after", runs::NumberSchema("Error with these lines in `what`.")}})},
      {"output", runs::ListSchema(end, "What the target gives.")},
      {"loss", Schema({{"fp32", runs::NumberSchema("In FP32.")},
                       {"low", runs::NumberSchema("In the low precision.")},
                       {"reference", runs::NumberSchema("In FP64.")}})},
      {"gradients", Schema({{"error", runs::NumberSchema("Of all together.")},
                            {"worst", runs::ListSchema(end, "Worst first.")},
                            {"loss_scale", runs::NumberSchema("At which they were computed.")}})},
      {"steps", runs::ListSchema(Schema({{"step", runs::IntegerSchema("From 0.")},
                                         {"fp32", runs::NumberSchema("Loss.")},
                                         {"low", runs::NumberSchema("Loss.")}}),
                                 "Losses of the training steps.")},
      {"layers", runs::ListSchema(row, "Module by module, in the order of the run.")},
      {"dims", runs::ListSchema(Schema({{"what", runs::TextSchema("Line that takes the tensor.")},
                                        {"dim", runs::IntegerSchema("Dimension.")},
                                        {"imbalance", runs::NumberSchema("Largest slice over "
                                                                         "smallest.")},
                                        {"absorbed", runs::NumberSchema("Share of slices that "
                                                                        "vanish in a sum.")}}),
                                "Inputs of the worst operators.")},
      {"ill_conditioned", runs::ListSchema(row, "Wrong in FP32 already.")},
      {"proof",
       Schema({{"line", runs::TextSchema("The suspected line.")},
               {"result", {{"enum", {"confirmed", "not_at_these_inputs", "cannot_be_run_alone"}}}},
               {"input", runs::ListSchema(texts, "Inputs that show it.")},
               {"tried", runs::ListSchema({{"type", "object"}}, "Inputs and verdicts.")},
               {"missing", runs::ListSchema(texts, "What keeps it from running.")}})},
      {"inputs", runs::ListSchema({{"type", "object"}}, "As they were made.")},
      {"limits", runs::ListSchema(texts, "What was not looked at.")},
  });
  schema["required"] = {"verdict"};
  return schema;
}

}  // namespace mpnanny::auto_diff
