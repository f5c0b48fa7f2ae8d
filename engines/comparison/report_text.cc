// The answer's text and its schema.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/comparison/report.h"
#include "engines/runs/schema.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

constexpr double kManyTimes = 10;  // a share is no measure of so much more

std::string Value(const Json& value) {
  if (value.is_null()) return "not known";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return runs::Number(value.get<double>());
  return DumpJson(value);
}

// "not acceptable": the verdict as people say it.
std::string Words(const Json& verdict) {
  std::string words = Value(verdict);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string SideText(const char* letter, const Json& side) {
  std::string text = std::string(letter) + ": " + Value(side["run"]) + " \"" + Value(side["name"]) +
                     "\", " + Value(side["status"]);
  if (!side["precision"].is_null()) text += ", " + Value(side["precision"]);
  text += ", " + runs::Count(side["steps"].get<int64_t>(), "step");
  if (!side["first_step"].is_null()) {
    text += " (" + Value(side["first_step"]) + " to " + Value(side["last_step"]) + ")";
  }
  return text + "\n";
}

// The figure that decides differs by more than its scatter, for better or worse.
bool DiffersAtEnd(const Json& json) {
  const Json& final = json["final"];
  if (!final.is_object() || !final["worse_by"].is_number()) return false;
  const double least = final["uncertainty"].is_number() ? final["uncertainty"].get<double>() : 0;
  return std::fabs(final["worse_by"].get<double>()) > std::max(least, 0.01);
}

std::string FirstText(const Json& json) {
  const Json& first = json["first_difference"];
  const Json& common = json["common"];
  if (first.is_null()) {
    if (common["steps"] == 0) return "";
    const std::string where = runs::Count(common["steps"].get<int64_t>(), "common step") + ", " +
                              Value(common["sampled_read"]) + " of " + Value(common["sampled"]) +
                              " common samples";
    return DiffersAtEnd(json)
               ? "Where they part is not found: the figures at the end differ (above), and no step "
                 "or sample before shows it beyond its noise (" +
                     where + ").\n"
               : "No difference beyond noise was found in " + where + ".\n";
  }
  const bool mean = first["mean_of"] > 1;
  std::string text = "First difference beyond noise: step " + Value(first["step"]) +
                     (mean ? " (means of " + Value(first["mean_of"]) + " steps from there)" : "") +
                     (first["spike"] == true ? " (a spike)" : "") + ", ";
  if (!first["layer"].is_null()) text += Value(first["layer"]) + ", ";
  text += Value(first["metric"]) + ": a " + Value(first["a"]) + ", b " + Value(first["b"]);
  if (first["noise"] != 0) text += " (noise up to " + Value(first["noise"]) + ")";
  if (!first["together_at"].is_null()) {
    text += "; still together at step " + Value(first["together_at"]);
  }
  return text + ".\n";
}

std::string MetricText(const Json& row) {
  std::string text =
      "  " + Value(row["metric"]) + ": a " + Value(row["a"]) + ", b " + Value(row["b"]);
  if (!row["difference"].is_null() && row["difference"].is_number()) {
    const double share = row["difference"].get<double>();
    text += " (" +
            (share >= kManyTimes && row["a"].get<double>() > 0
                 ? runs::Number(share + 1, 3) + " times"
                 : std::string(share > 0 ? "+" : "") + runs::Number(100 * share, 3) + " %") +
            ")";
  }
  if (row.contains("layer")) text += " in " + Value(row["layer"]);
  if (row.contains("parted")) {
    text += ", " + Value(row["parted"]) + " of " + Value(row["tensors"]) + " tensors part";
  }
  if (!row["parts_at"].is_null()) text += ", from step " + Value(row["parts_at"]);
  return text + "\n";
}

std::string CostText(const char* what, const Json& cost) {
  if (cost["a"].is_null() && cost["b"].is_null()) return "";
  std::string text = std::string(what) + ": a " + Value(cost["a"]) + ", b " + Value(cost["b"]) +
                     " " + Value(cost["unit"]);
  if (!cost["ratio"].is_null()) text += " (b/a " + Value(cost["ratio"]) + ")";
  return text + ". ";
}

std::string LeftOut(const Json& json, const char* list) {
  const auto count = json[std::string(list) + "_left_out"].get<int64_t>();
  return count == 0 ? "" : "  and " + std::to_string(count) + " more\n";
}

std::string NextText(const Json& json) {
  const Json& mend = json["mend"];
  if (mend.is_object() && mend["outcome"] == "not_reached") {
    return "Next: let b run to step " + Value(mend["a"]["step"]) +
           " and some steps more, then compare again.\n";
  }
  if (mend.is_object() && mend["outcome"] == "not_measured") {
    return "Next: record b with samples and shadow steps as a has them (`mpnanny run`), then "
           "compare again.\n";
  }
  const bool faulty =
      mend.is_object() && (mend["outcome"] == "still_there" || mend["outcome"] == "other_fault");
  return faulty || json["verdict"] == "not_acceptable"
             ? "Next: diagnose_run on b tells why.\n"
             : "Next: run_summary tells one run; query_alerts lists b's alerts.\n";
}

}  // namespace

std::string ComparisonText(const Json& json) {
  std::string text;
  if (!json["mend"].is_null()) text += Value(json["mend"]["text"]) + "\n";
  if (json["different_programs"].is_string()) {
    text += Value(json["different_programs"]) + "\n";
  }
  text += "Verdict on b, with a as the reference: " + Words(json["verdict"]);
  if (!json["so_far"].is_null()) text += " (so far: " + Words(json["so_far"]) + ")";
  text += ".\n";
  for (const Json& reason : json["reasons"]) text += "- " + Value(reason) + "\n";
  text += SideText("a", json["a"]) + SideText("b", json["b"]) + FirstText(json);
  text += "Figures (at the end; of tensors the worst, where it parts):\n";
  for (const Json& row : json["metrics"]) text += MetricText(row);
  text += LeftOut(json, "metrics");
  if (const auto calm = json["metrics_together"].get<int64_t>(); calm > 0) {
    text += "  " + runs::Count(calm, "figure") + " of tensors without a difference beyond noise\n";
  }
  if (!json["layers"].empty()) {
    text += "Tensors that part: " + Value(json["parted_tensors"]) + " of " +
            Value(json["compared_tensors"]) + ", in order of time:\n";
    for (const Json& row : json["layers"]) {
      text += "  step " + Value(row["step"]) + "  " + Value(row["layer"]) + " " +
              Value(row["metric"]) + ": a " + Value(row["a"]) + ", b " + Value(row["b"]);
      if (!row["noise"].is_null()) text += " (noise " + Value(row["noise"]) + ")";
      text += "\n";
    }
    text += LeftOut(json, "layers");
  }
  const std::string cost = CostText("Step time", json["gain"]["step_time"]) +
                           CostText("Peak memory", json["gain"]["peak_memory"]);
  if (!cost.empty()) text += cost + "\n";
  if (!json["config"].empty()) {
    text += "Settings that differ:\n";
    for (const Json& row : json["config"]) {
      text += "  " + Value(row["key"]) + ": a " + Value(row["a"]) + ", b " + Value(row["b"]) + "\n";
    }
    text += LeftOut(json, "config");
  }
  for (const Json& limit : json["limits"]) text += "Note: " + Value(limit) + "\n";
  const Json& noise = json["noise"];
  text += "Noise: rounding of " + Value(noise["format"]) + " through " +
          runs::Count(noise["depth"].get<int64_t>(), "module") +
          ", a's own variation, and what other layers moved the other way; curves over " +
          Value(noise["window"]) + " steps.\n";
  text += NextText(json);
  return text;
}

namespace {

Json MendSchema() {
  Json outcomes = Json::array();
  for (const char* name : kMendNames) outcomes.push_back(name);
  const auto side = [](const std::string& whose) {
    return runs::ObjectSchema({{"verdict", {{"type", "string"}}},
                               {"step", runs::IntegerSchema("First bad step.", true)},
                               {"what", runs::TextSchema("First fault; null: none.", true)},
                               {"source", runs::TextSchema("file:line", true)},
                               {"steps", {{"type", "integer"}}},
                               {"samples", {{"type", "integer"}}},
                               {"shadow_steps", {{"type", "integer"}}}},
                              whose);
  };
  return runs::OptionalObjectSchema(
      {{"outcome", {{"enum", std::move(outcomes)}}},
       {"text", runs::TextSchema("What a had, what b shows, both losses.")},
       {"a", side("a's diagnosis.")},
       {"b", side("b's, and what looked at it.")}},
      "Whether b mends what diagnose_run finds wrong with a; null: it finds nothing, or `steps` "
      "was given.");
}

}  // namespace

Json ComparisonSchema() {
  using runs::IntegerSchema, runs::ListSchema, runs::NumberSchema, runs::ObjectSchema,
      runs::TextSchema;
  const Json verdict = {{"enum", {"acceptable", "not_acceptable", "undecided"}}};
  const Json texts = {{"type", "string"}};
  const auto pair = [](const std::string& what) {
    return ObjectSchema({{"a", {{"type", {"number", "string", "null"}}}},
                         {"b", {{"type", {"number", "string", "null"}}}}},
                        what);
  };
  Json difference = pair("Where they part beyond noise; null: nowhere that was looked at.");
  difference["type"] = {"object", "null"};
  difference["properties"]["step"] = {{"type", "integer"}};
  difference["properties"]["layer"] = TextSchema("null: a figure of the whole step.", true);
  difference["properties"]["metric"] = {{"type", "string"}};
  difference["properties"]["noise"] = NumberSchema("By how much noise lets them differ.");
  difference["properties"]["mean_of"] = IntegerSchema("a and b are means of so many steps.");
  difference["properties"]["spike"] = {
      {"type", "boolean"}, {"description", "The curves are together before and after."}};
  Json metric = pair("");
  metric["properties"]["metric"] = {{"type", "string"}};
  metric["properties"]["difference"] = NumberSchema("(b - a) / |a|.");
  metric["properties"]["parts_at"] = IntegerSchema("First step.", true);
  return ObjectSchema(
      {{"verdict", verdict},
       {"mend", MendSchema()},
       {"different_programs",
        TextSchema("That the two are not one program in two settings, and by what; null.", true)},
       {"reasons", ListSchema(texts, "Why, most important first.")},
       {"first_difference", difference},
       {"printed",
        ListSchema(
            {{"type", "object"}},
            "Of two logs, figure by figure: up to which step both print the same, where they "
            "part, and the factor between them where it is one. First to part first.")},
       {"metrics", ListSchema(metric,
                              "Loss, gradient norm …; then figures of tensors that part, "
                              "each with its worst tensor and how many part.")},
       {"gain", ObjectSchema({{"step_time", pair("Median.")}, {"peak_memory", pair("Device.")}})},
       {"config", ListSchema({{"type", "object"}}, "Settings that differ: key, a, b.")},
       {"final",
        {{"type", {"object", "null"}},
         {"description", "What decides: metric, a, b, worse_by (share of a), uncertainty."}}},
       {"so_far",
        {{"type", {"string", "null"}},
         {"description", "While one still trains: the verdict on what there is."}}},
       {"common", {{"type", "object"}, {"description", "Steps, samples, layers of both."}}},
       {"layers", ListSchema({{"type", "object"}},
                             "Tensors that part, in order of time: step, layer, metric, a, b.")},
       {"limits", ListSchema(texts, "What the comparison cannot see.")}});
}

}  // namespace mpnanny::comparison
