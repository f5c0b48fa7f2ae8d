#include "engines/comparison/report.h"

#include <cmath>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kShownLimits = 8;
constexpr size_t kShownNumbers = 8;  // printed ones, those that part first

Json Step(const std::optional<int64_t>& step) { return step ? Json(*step) : Json(nullptr); }

Json SideJson(const runs::Source& source, const summary::Summary& s) {
  return {{"run", EscapeControl(FormatRunHandle(source.run.handle), 400)},
          {"name", runs::Name(source.run.name)},
          {"status", NameOf(source.run.status)},
          {"precision",
           source.run.precision.empty() ? Json(nullptr) : Json(source.run.precision.text())},
          {"steps", s.steps},
          {"first_step", Step(s.first_step)},
          {"last_step", Step(s.last_step)},
          {"stable", s.stable ? Json(*s.stable) : Json(nullptr)}};
}

Json CostJson(const std::optional<double>& a, const std::optional<double>& b, const char* unit) {
  const bool known = a && b && *a > 0;
  return {{"a", JsonNumber(a, 4)},
          {"b", JsonNumber(b, 4)},
          {"ratio", known ? JsonNumber(*b / *a, 3) : Json(nullptr)},
          {"unit", unit}};
}

Json GainJson(const Course& course) {
  const auto bytes = [](const std::optional<int64_t>& n) {
    return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
  };
  return {
      {"step_time", CostJson(course.seconds_a, course.seconds_b, "seconds")},
      {"peak_memory", CostJson(bytes(course.a.peak_memory), bytes(course.b.peak_memory), "bytes")}};
}

Json CurveJson(const char* metric, const std::optional<Ending>& ending,
               const std::optional<CurveParting>& parting) {
  Json row = {{"metric", metric},
              {"a", nullptr},
              {"b", nullptr},
              {"difference", nullptr},
              {"parts_at", parting ? Json(parting->step) : Json(nullptr)}};
  if (ending) {
    row["a"] = JsonNumber(ending->last.a);
    row["b"] = JsonNumber(ending->last.b);
    const double scale = std::fabs(ending->last.a);
    if (scale > 0) {
      row["difference"] = JsonNumber((ending->last.b - ending->last.a) / scale, 3);
      row["noise"] = JsonNumber(2 * ending->last.standard_error / scale, 3);
    }
  }
  return row;
}

Json CountsJson(const char* metric, std::optional<double> a, std::optional<double> b,
                const std::optional<CurveParting>& parting) {
  return {{"metric", metric},
          {"a", JsonNumber(a)},
          {"b", JsonNumber(b)},
          {"difference", nullptr},
          {"parts_at", parting ? Json(parting->step) : Json(nullptr)}};
}

Json FiguresJson(const Comparison& c) {
  const auto count = [](int64_t n) { return std::optional(static_cast<double>(n)); };
  const summary::Summary &a = c.course.a, &b = c.course.b;
  Json loss = CurveJson("loss", c.loss_ending, c.loss_parting);
  if (OnlyAEndsNotFinite(c.course)) {
    // Means of steps at which both are finite would be no end of either.
    loss["a"] = JsonNumber(a.loss_last);
    loss["b"] = JsonNumber(b.loss_end);
    loss["difference"] = nullptr;
    loss.erase("noise");
    if (c.course.loss_one_sided) loss["parts_at"] = c.course.loss_one_sided->step;
  } else if (c.loss_scales) {
    loss["difference"] = nullptr;
    loss.erase("noise");
  }
  Json rows = Json::array({std::move(loss), CurveJson("grad_norm", c.norm_ending, c.norm_parting)});
  if (a.scale_last || b.scale_last) {
    rows.push_back(CountsJson("loss_scale", a.scale_last, b.scale_last, c.scale_parting));
  }
  rows.push_back(CountsJson("nonfinite_losses", count(a.nonfinite_losses),
                            count(b.nonfinite_losses), std::nullopt));
  rows.push_back(
      CountsJson("skipped_steps", count(a.skipped_steps), count(b.skipped_steps), std::nullopt));
  return rows;
}

std::string FigureName(int64_t kind, int metric) {
  return runs::KindName(kind) + " " + MetricName(metric);
}

Json GroupJson(const GroupOutcome& group, const LayerPairs& layers) {
  Json row = {{"metric", FigureName(group.kind, group.metric)},
              {"a", nullptr},
              {"b", nullptr},
              {"difference", nullptr},
              {"parts_at", nullptr},
              {"tensors", group.compared},
              {"parted", group.parted}};
  if (!group.first) return row;
  row["parts_at"] = group.first->step;
  const TensorParting& worst = *group.worst;
  row["a"] = JsonNumber(worst.a, 4);
  row["b"] = JsonNumber(worst.b, 4);
  if (!IsShare(worst.metric) && worst.metric != kNonFinite && worst.a != 0) {
    row["difference"] = JsonNumber((worst.b - worst.a) / std::fabs(worst.a), 3);
  }
  row["noise"] = worst.metric == kNonFinite ? Json(nullptr) : JsonNumber(worst.limit, 3);
  row["layer"] = runs::Name(layers.common[worst.key.layer].name);
  return row;
}

Json PartingJson(const TensorParting& parting, const LayerPairs& layers) {
  const double limit =
      IsShare(parting.metric) ? parting.limit : parting.limit * std::fabs(parting.a);
  return {{"step", parting.step},
          {"layer", runs::Name(layers.common[parting.key.layer].name)},
          {"metric", FigureName(parting.key.kind, parting.metric)},
          {"a", JsonNumber(parting.a, 4)},
          {"b", JsonNumber(parting.b, 4)},
          {"noise", parting.metric == kNonFinite ? Json(nullptr) : JsonNumber(limit, 3)}};
}

Json FirstJson(const std::optional<FirstDifference>& first) {
  if (!first) return nullptr;
  return {{"step", first->step},
          {"layer", first->layer.empty() ? Json(nullptr) : Json(runs::Name(first->layer))},
          {"metric", first->metric},
          {"a", JsonNumber(first->a)},
          {"b", JsonNumber(first->b)},
          {"noise", JsonNumber(first->limit, 3)},
          {"mean_of", first->mean_of},
          {"spike", first->spike},
          {"together_at", Step(first->together_at)}};
}

Json PrintedJson(const FirstNumber& printed) {
  Json rows = Json::array();
  for (const NumberParting& number : printed.numbers) {
    if (rows.size() == kShownNumbers) break;
    Json row = {{"name", runs::Name(number.name)},
                {"steps", number.common},
                {"equal_up_to", Step(number.equal_up_to)},
                {"parts_at", Step(number.parts_at)},
                {"a", number.parts_at ? JsonNumber(number.a) : Json(nullptr)},
                {"b", number.parts_at ? JsonNumber(number.b) : Json(nullptr)},
                {"printed_a", number.printed_a},
                {"printed_b", number.printed_b}};
    if (number.factor) row["factor"] = JsonNumber(*number.factor, 5);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json FinalJson(const std::optional<Final>& final) {
  if (!final) return nullptr;
  return {{"metric", final->metric},
          {"a", JsonNumber(final->a)},
          {"b", JsonNumber(final->b)},
          {"worse_by", final->comparable ? JsonNumber(final->worse, 3) : Json(nullptr)},
          {"uncertainty", final->comparable ? JsonNumber(final->uncertainty, 3) : Json(nullptr)},
          {"first_step", Step(final->first_step)},
          {"last_step", Step(final->last_step)}};
}

Json FaultJson(const RunHealth& health, const std::optional<Fault>& fault) {
  Json json = {{"verdict", health.verdict.verdict ? NameOf(*health.verdict.verdict) : ""},
               {"step", fault ? Step(fault->step) : Json(nullptr)},
               {"what", nullptr},
               {"source", nullptr}};
  if (!fault) return json;
  if (!fault->what.empty()) json["what"] = EscapeControl(fault->what, 300);
  if (!fault->source.empty()) json["source"] = runs::Name(fault->source);
  return json;
}

Json MendJson(const Comparison& c, const Diagnoses& diagnoses) {
  if (!c.mend) return nullptr;
  const auto side = [](const RunHealth& health, const std::optional<Fault>& fault) {
    Json json = FaultJson(health, fault);
    json["steps"] = health.steps;
    json["samples"] = health.samples;
    json["shadow_steps"] = health.shadow_steps;
    return json;
  };
  return {{"outcome", MendName(c.mend->outcome)},
          {"text", EscapeControl(c.mend->text, 1200)},
          {"a", side(diagnoses.a, c.mend->of_a)},
          {"b", side(diagnoses.b, c.mend->of_b)}};
}

Json NamesJson(const std::vector<std::string>& names, size_t most) {
  Json list = Json::array();
  for (size_t i = 0; i < std::min(names.size(), most); ++i) list.push_back(runs::Name(names[i]));
  return list;
}

// Adds to json[list] as many of the rows as `share` bytes hold; the rest is counted.
void Fill(Json& json, const char* list, const std::vector<Json>& rows, size_t share, size_t all) {
  size_t used = 0;
  Json taken = Json::array();
  for (const Json& row : rows) {
    const size_t cost = DumpJson(row).size() + 1;
    if (used + cost > share && !taken.empty()) break;
    used += cost;
    taken.push_back(row);
  }
  json[std::string(list) + "_left_out"] = all - taken.size();
  json[list] = std::move(taken);
}

}  // namespace

Json ComparisonJson(const runs::Source& a, const runs::Source& b, const Comparison& c,
                    const Diagnoses& diagnoses, size_t bytes) {
  Json limits = Json::array();
  for (const std::string& limit : c.limits) {
    if (limits.size() < kShownLimits) limits.push_back(EscapeControl(limit, 300));
  }
  Json reasons = Json::array();
  for (const std::string& reason : c.reasons) reasons.push_back(EscapeControl(reason, 900));
  const bool live =
      a.run.status == runs::Status::kRunning || b.run.status == runs::Status::kRunning;
  const std::string programs = DifferentPrograms(a.run, b.run, c.layers);
  Json json = {{"verdict", VerdictName(c.verdict)},
               {"mend", MendJson(c, diagnoses)},
               {"different_programs", programs.empty() ? Json() : Json(programs)},
               {"reasons", std::move(reasons)},
               {"first_difference", FirstJson(c.first)},
               {"printed", PrintedJson(c.printed)},
               {"metrics", Json::array()},
               {"gain", GainJson(c.course)},
               {"config", Json::array()},
               {"final", FinalJson(c.final_metric)},
               {"a", SideJson(a, c.course.a)},
               {"b", SideJson(b, c.course.b)},
               {"so_far", live ? Json(VerdictName(c.so_far)) : Json(nullptr)},
               {"common",
                {{"steps", c.course.common_steps},
                 {"first_step", Step(c.course.first_common)},
                 {"last_step", Step(c.course.last_common)},
                 {"sampled", c.tensors.common_samples},
                 {"sampled_read", c.tensors.samples_read},
                 {"layers", c.layers.common.size()},
                 {"only_a", NamesJson(c.layers.only_a, 4)},
                 {"only_b", NamesJson(c.layers.only_b, 4)},
                 {"only_a_total", c.layers.count_only_a},
                 {"only_b_total", c.layers.count_only_b}}},
               {"noise",
                {{"format", c.format},
                 {"depth", c.layers.depth},
                 {"deviations", JsonNumber(c.tensors.deviations, 3)},
                 {"window", c.window * static_cast<size_t>(c.course.steps_a_point)}}},
               {"layers", Json::array()},
               {"parted_tensors", c.tensors.parted_tensors},
               {"compared_tensors", c.tensors.compared_tensors},
               {"limits", std::move(limits)}};
  std::vector<Json> figures, partings, settings;
  for (const Json& row : FiguresJson(c)) figures.push_back(row);
  int64_t calm = 0;
  for (const GroupOutcome& group : c.tensors.groups) {
    if (group.first) {
      figures.push_back(GroupJson(group, c.layers));
    } else {
      ++calm;
    }
  }
  json["metrics_together"] = calm;
  for (const TensorParting& parting : c.tensors.partings) {
    partings.push_back(PartingJson(parting, c.layers));
  }
  for (const Setting& setting : c.settings) {
    settings.push_back({{"key", setting.key}, {"a", setting.a}, {"b", setting.b}});
  }
  const size_t used = DumpJson(json).size() + 120;
  const size_t left = bytes > used ? bytes - used : 0;
  Fill(json, "metrics", figures, left / 5 * 2, figures.size());
  Fill(json, "layers", partings, left / 5 * 2, static_cast<size_t>(c.tensors.parted_tensors));
  Fill(json, "config", settings, left / 5, settings.size());
  return json;
}

}  // namespace mpnanny::comparison
