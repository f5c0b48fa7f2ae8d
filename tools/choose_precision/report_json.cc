#include <utility>

#include "engines/python_code/answer_form.h"
#include "engines/python_code/fields.h"
#include "tools/choose_precision/report.h"

namespace mpnanny::choose_precision {
namespace {

Json Described(Json schema, const char* description) {
  schema["description"] = description;
  return schema;
}

Json WholeNumbersSchema() {
  using python_code::RowSchema;
  Json made = RowSchema({"op", "module", "source", "dtype"}, {"share", "magnitude"});
  made["properties"]["grows"] = RowSchema({"op", "module", "source"}, {"error"});
  return made;
}

}  // namespace

Json ReportJson(const Json& answer, const std::string& library, size_t bytes) {
  Json shown = answer;
  if (library != "all" && shown.contains("code") && shown["code"].is_array()) {
    Json kept = Json::array();
    for (Json& each : shown["code"]) {
      const std::string name = python_code::TextAt(each, "library");
      if (name == library || name == "keep_fp32.py") kept.push_back(std::move(each));
    }
    shown["code"] = std::move(kept);
  }
  return python_code::Shortened(shown, bytes, {"islands", "alternatives", "states", "code", "layers"});
}

// As auto_diff's.
const Json& AnswerSchema() {
  static const Json& schema = *new Json([] {
    using python_code::RowSchema;
    using python_code::RowsSchema;
    Json made = ReportSchema();
    Json& fields = made["properties"];
    const Json effect = RowSchema({}, {"output", "loss", "gradient", "worst_gradient"});
    fields["error"] = effect;
    fields["error_all_low"] = effect;
    fields["tolerance"] = python_code::FigureSchema();
    fields["device"] = RowSchema({"name", "title", "kind"}, {});
    fields["islands"] = RowsSchema({"module", "kind", "format"}, {"alone", "without_it", "absmax"});
    fields["states"] = RowsSchema({"state", "format"}, {"lost"});
    fields["layers"] =
        RowsSchema({"module", "kind", "format"}, {"alone", "absmax", "gradient_absmax", "room"});
    fields["alternatives"] = RowsSchema({"way"}, {});
    fields["code"] = RowsSchema({"library", "language", "text"}, {});
    fields["trial"] = RowSchema({"verdict", "reason", "raised"},
                                {"steps", "difference", "noise", "final", "final_fp32"});
    fields["alternatives"]["items"]["properties"]["trial"] = fields["trial"];
    const Json whole = WholeNumbersSchema();
    fields["whole_numbers"] = {{"type", "array"}, {"items", whole}};
    fields["islands"]["items"]["properties"]["whole_numbers"] = whole;
    fields["alternatives"]["items"]["properties"]["whole_numbers"] = fields["whole_numbers"];
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
  return {
      {"type", "object"},
      {"required", {"verdict"}},
      {"properties",
       {{"verdict",
         {{"enum",
           {"safe", "safe_with_islands", "stay_fp32", "nothing_lower_on_device",
            "not_established"}}}},
        {"way", text},
        {"goal", text},
        {"target", text},
        {"device", object},
        {"refuted", Described(texts, "Ways that their trial refuted; its figures are in alternatives.")},
        {"whole_numbers", Described(rows, "That the code's own dtype changes, in FP32 as well.")},
        {"islands", Described(rows, "Modules in FP32: alone, without_it (errors), absmax, lines.")},
        {"fp8_left_out", Described(texts, "Linear layers in BF16 beside FP8.")},
        {"error", Described(object,
                            "Against FP32, relative: output, loss, gradient, "
                            "worst_gradient.")},
        {"error_all_low", Described(object, "The same with no island.")},
        {"tolerance", number},
        {"fp32_operators", Described(number, "Share that computes in FP32.")},
        {"memory", Described(object, "Bytes, at the inputs given; of_fp32: share.")},
        {"speedup_model", Described(number, "By a roofline model; compare plans with it only.")},
        {"scaler", object},
        {"states", Described(rows, "state, format, lost, keep_fp32.")},
        {"layers", Described(rows, "Most sensitive first.")},
        {"alternatives", rows},
        {"not_on_device", texts},
        {"code", Described(rows, "library, language, text.")},
        {"trial", Described(object, "verdict type_1 (fits), type_2 (does not), not_established.")},
        {"limits", texts},
        {"computed_by", Described(text, "Who says so: the process that ran the code.")}}}};
}

}  // namespace mpnanny::choose_precision
