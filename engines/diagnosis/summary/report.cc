#include "engines/diagnosis/summary/report.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/diagnosis/summary/markdown.h"
#include "engines/diagnosis/summary/shadow_block.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/log_lines.h"
#include "engines/runs/schema.h"
#include "engines/runs/show.h"

namespace mpnanny::summary {
namespace {

using runs::Count;
using runs::Number;

constexpr size_t kEnvironmentBytes = 2000;
constexpr size_t kEnvironmentBytesBesideFindings = 900;
constexpr size_t kBytesForAlerts = 900;  // kept back from what findings may take
constexpr size_t kMaxNotes = 6;

// Strings of a user's JSON, made safe; nesting is bounded by ParseJson.
Json Escaped(const Json& value) {
  if (value.is_string()) return EscapeControl(value.get<std::string>(), 300);
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(Escaped(item));
    return list;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [key, item] : value.items()) object[EscapeControl(key, 100)] = Escaped(item);
    return object;
  }
  return value;
}

Json GroupJson(const AlertGroup& group) {
  Json layers = Json::array();
  for (const std::string& layer : group.layers) layers.push_back(runs::Name(layer));
  return {{"type", runs::Name(group.type)}, {"severity", runs::Name(group.severity)},
          {"count", group.count},           {"first_step", group.first_step},
          {"layers", std::move(layers)},    {"layer_count", group.layer_count},
          {"repeats", group.repeats}};
}

std::string GroupText(const AlertGroup& group) {
  std::string line = "  " + runs::Name(group.severity) + " " + runs::Name(group.type) + ": " +
                     std::to_string(group.count) + ", first at step " +
                     std::to_string(group.first_step);
  if (!group.layers.empty()) {
    line += ", in ";
    for (const std::string& layer : group.layers) {
      line += (&layer == &group.layers.front() ? "" : ", ") + LayerWord(runs::Name(layer));
    }
    const auto shown = static_cast<int64_t>(group.layers.size());
    if (group.layer_count > shown) {
      line += " and " + Count(group.layer_count - shown, "other layer");
    }
  }
  return line;
}

Json ForecastsJson(const Summary& s) {
  Json rows = Json::array();
  for (const Forecast& each : s.forecasts) rows.push_back(ForecastJson(each));
  return rows;
}

// The newer half of the run, and where it leads.
std::string OutlookText(const Summary& s) {
  std::vector<std::string> trends = {TrendText("loss", LossTrend(s.course)),
                                     TrendText("gradient norm", NormTrend(s.course)),
                                     TrendText("loss scale", ScaleTrend(s.course))};
  std::erase(trends, "");
  std::string text;
  if (!trends.empty()) text = "Trend of the newer half: " + Join(trends, ", ") + ".\n";
  for (const Forecast& each : s.forecasts) text += "Forecast: " + ForecastText(each) + "\n";
  return text;
}

std::vector<std::string> Notes(const runs::Source& source, const Summary& summary) {
  std::vector<std::string> notes;
  if (summary.ended_after) notes.push_back(runs::EndedEarly(*summary.ended_after));
  notes.insert(notes.end(), summary.shadow.notes.begin(), summary.shadow.notes.end());
  notes.insert(notes.end(), source.notes.begin(), source.notes.end());
  if (summary.steps_only_in_ring > 0) {
    notes.push_back(Count(summary.steps_only_in_ring, "step") +
                    " of the run stand only in the flight recorder: " +
                    (source.run.status == runs::Status::kRunning
                         ? "the run still goes on, and writes to its database now and then."
                         : "the process ended before it could write them to the database."));
  }
  if (auto own = ParseJson(source.run.notes); own && own->is_array()) {
    for (const Json& note : *own) {
      if (notes.size() >= kMaxNotes) break;
      notes.push_back(
          EscapeControl(note.is_string() ? note.get<std::string>() : DumpJson(note), 300));
    }
  }
  return notes;
}

// Findings are worth more room than settings.
std::string Plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

// "python 3.13.1, torch 2.13.0, devices: cuda:0 name H100 …": for people; the JSON has it as it is.
std::string EnvironmentText(const Json& environment) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : environment.items()) {
    if (value.is_null() || (value.is_structured() && value.empty())) continue;
    if (key == "left_out") {
      parts.push_back(Plain(value) + " more");
    } else if (value.is_object()) {
      parts.push_back(key + ": (" + EnvironmentText(value) + ")");
    } else if (value.is_array()) {
      std::vector<std::string> each;
      for (const Json& one : value) {
        each.push_back(one.is_object() ? "(" + EnvironmentText(one) + ")" : Plain(one));
      }
      parts.push_back(key + " " + Join(each, ", "));
    } else {
      parts.push_back(key + " " + Plain(value));
    }
  }
  return Join(parts, "; ");
}

size_t EnvironmentBytes(const Summary& summary) {
  return summary.shadow.findings.empty() ? kEnvironmentBytes : kEnvironmentBytesBesideFindings;
}

// What is left of `bytes` for findings.
size_t FindingBytes(size_t bytes, size_t used, const Summary& summary) {
  const size_t alerts = summary.alerts.empty() ? 0 : kBytesForAlerts;
  return bytes > used + alerts ? bytes - used - alerts : 0;
}

// One list a figure, as curves are drawn; a stretch with a loss that is not finite is "nan".
Json CourseJson(const std::vector<Stretch>& course) {
  Json json = {{"step", Json::array()},
               {"loss", Json::array()},
               {"loss_max", Json::array()},
               {"loss_scale", Json::array()}};
  const size_t together = (course.size() + kStretches - 1) / kStretches;
  for (size_t i = 0; i < course.size(); i += std::max<size_t>(together, 1)) {
    const size_t end = std::min(course.size(), i + together);
    double sum = 0;
    std::optional<double> greatest, scale;
    int64_t losses = 0, nonfinite = 0;
    for (size_t j = i; j < end; ++j) {
      sum += course[j].loss_sum;
      losses += course[j].losses;
      nonfinite += course[j].nonfinite_losses;
      if (course[j].losses > 0)
        greatest = std::max(greatest.value_or(-HUGE_VAL), course[j].loss_max);
      if (course[j].scale) scale = std::min(scale.value_or(HUGE_VAL), *course[j].scale);
    }
    json["step"].push_back(course[i].first_step);
    json["loss"].push_back(nonfinite > 0 ? Json("nan")
                           : losses > 0  ? JsonNumber(sum / static_cast<double>(losses), 4)
                                         : Json(nullptr));
    json["loss_max"].push_back(JsonNumber(greatest, 4));
    json["loss_scale"].push_back(JsonNumber(scale, 4));
  }
  return json;
}

}  // namespace

Json ShownEnvironment(const std::string& raw, size_t bytes) {
  Json shown = Json::object();
  auto parsed = raw.empty() ? Result<Json>(Json::object()) : ParseJson(raw);
  if (!parsed || !parsed->is_object()) return shown;
  size_t used = 2;
  size_t left_out = 0;
  for (const auto& [key, value] : parsed->items()) {
    Json item = Escaped(value);
    const size_t cost = key.size() + DumpJson(item).size() + 6;
    if (used + cost > bytes) {
      ++left_out;
      continue;
    }
    used += cost;
    shown[EscapeControl(key, 100)] = std::move(item);
  }
  if (left_out > 0) shown["left_out"] = left_out;
  return shown;
}

Json SummaryJson(const runs::Source& source, const Summary& s, size_t bytes) {
  const runs::Run& run = source.run;
  Json json = {
      {"run", runs::ShownHandle(source)},
      {"name", runs::Name(run.name)},
      {"status", NameOf(run.status)},
      {"verdict", s.verdict.verdict ? NameOf(*s.verdict.verdict) : ""},
      {"stable", s.stable ? Json(*s.stable) : Json(nullptr)},
      {"reasons", s.reasons},
      {"steps", s.steps},
      {"loss",
       {{"first", JsonNumber(s.loss_first)},
        {"last", JsonNumber(s.loss_last)},
        {"min", JsonNumber(s.loss_min)}}},
      {"loss_scale",
       {{"last", JsonNumber(s.scale_last)},
        {"min", JsonNumber(s.scale_min)},
        {"rises", s.scale_rises},
        {"falls", s.scale_falls},
        {"first", JsonNumber(s.scale_first)}}},
      {"skipped_steps", s.skipped_steps},
      {"skipped_in_search", SearchSkips(s)},
      {"alerts", Json::array()},
      {"alerts_left_out", 0},
      {"nonfinite_losses", s.nonfinite_losses},
      {"nonfinite_gradient_steps", s.nonfinite_gradient_steps},
      {"sampled_steps", s.sampled_steps},
      {"first_step", s.first_step ? Json(*s.first_step) : Json(nullptr)},
      {"last_step", s.last_step ? Json(*s.last_step) : Json(nullptr)},
      {"lr", JsonNumber(s.lr_last)},
      {"grad_norm", {{"last", JsonNumber(s.grad_norm_last)}, {"max", JsonNumber(s.grad_norm_max)}}},
      {"step_seconds", JsonNumber(s.mean_duration)},
      {"peak_memory", s.peak_memory ? Json(*s.peak_memory) : Json(nullptr)},
      {"precision", run.precision.empty() ? Json(nullptr) : Json(run.precision.text())},
      {"started_at", runs::Time(run.started_at)},
      {"notes", Notes(source, s)},
      {"course", CourseJson(s.course)},
      {"trend",
       {{"loss", TrendJson(LossTrend(s.course))},
        {"grad_norm", TrendJson(NormTrend(s.course))},
        {"loss_scale", TrendJson(ScaleTrend(s.course))}}},
      {"forecast", ForecastsJson(s)},
      {"shadow", nullptr},
      {"environment", ShownEnvironment(run.environment, EnvironmentBytes(s))}};
  json["shadow"] = ShadowJson(s.shadow, FindingBytes(bytes, DumpJson(json).size() + 100, s));
  size_t used = DumpJson(json).size() + 40;
  size_t left_out = 0;
  for (const AlertGroup& group : s.alerts) {
    Json row = GroupJson(group);
    const size_t cost = DumpJson(row).size() + 1;
    if (used + cost > bytes) {
      ++left_out;
      continue;
    }
    used += cost;
    json["alerts"].push_back(std::move(row));
  }
  json["alerts_left_out"] = left_out;
  return json;
}

std::string SummaryText(const runs::Source& source, const Summary& s, size_t bytes) {
  const runs::Run& run = source.run;
  const std::string handle = runs::ShownHandle(source);
  std::string text = handle + " \"" + runs::Name(run.name) + "\": " + NameOf(run.status) + ", " +
                     (s.stable ? VerdictWords(s.verdict.verdict, run.status) : "nothing recorded") +
                     ".\n";
  for (const std::string& reason : s.reasons) text += "- " + reason + "\n";
  text += "Steps: " + std::to_string(s.steps);
  if (s.first_step) {
    text += " (" + std::to_string(*s.first_step) + " to " + std::to_string(*s.last_step) + ", " +
            std::to_string(s.sampled_steps) + " sampled)";
  }
  if (!run.precision.empty()) text += ", judged by " + std::string(run.precision.text());
  // A log may not say when it was.
  if (const std::string at = runs::Time(run.started_at); !at.empty()) text += ", started " + at;
  text += ".\n";
  text += "Loss: first " + Number(s.loss_first) + ", last " + Number(s.loss_last) + ", min " +
          Number(s.loss_min) +
          (s.loss_min_step
               ? runs::LogLines(source).Located(" at step " + std::to_string(*s.loss_min_step))
               : "") +
          "; " + Count(s.nonfinite_losses, "non-finite value") + ".\n";
  if (s.scale_first) {
    text += "Loss scale: first " + Number(s.scale_first) + ", last " + Number(s.scale_last) +
            ", min " + Number(s.scale_min) + ", " + Count(s.scale_rises, "rise") + ", " +
            Count(s.scale_falls, "fall") + ". ";
  } else {
    text += "Loss scale: none recorded. ";
  }
  text += Count(s.skipped_steps, "step") + " skipped" + SkipsApart(s).English() + ", " +
          Count(s.nonfinite_gradient_steps, "step") + " with non-finite gradients.\n";
  text += "Gradient norm: last " + Number(s.grad_norm_last) + ", max " + Number(s.grad_norm_max) +
          ". Learning rate: " + Number(s.lr_last) +
          ". Seconds a step: " + Number(s.mean_duration, 3) + ".";
  if (s.peak_memory)
    text += " Peak device memory: " + std::to_string(*s.peak_memory >> 20) + " MiB.";
  text += "\n";

  const Json course = CourseJson(s.course);
  if (course["step"].size() > 2) {
    text += "Loss over time: " + CourseLine(course["loss"]) + "\n";
    if (s.scale_first) text += "Scale over time: " + CourseLine(course["loss_scale"]) + "\n";
  }

  text += OutlookText(s);

  std::string tail;
  for (const std::string& note : Notes(source, s)) tail += "Note: " + note + "\n";
  const Json environment = ShownEnvironment(run.environment, EnvironmentBytes(s));
  if (!environment.empty()) tail += "Environment: " + EnvironmentText(environment) + ".\n";
  tail += s.stable.value_or(true)
              ? "Next: query_alerts lists the alerts one by one.\n"
              : "Next: diagnose_run tells why, query_alerts lists the alerts one by one.\n";
  text +=
      ShadowText(s.shadow, run.world_size, FindingBytes(bytes, text.size() + tail.size() + 100, s));
  text += s.alerts.empty() ? "Alerts: none.\n" : "Alerts:\n";
  size_t left_out = 0;
  for (const AlertGroup& group : s.alerts) {
    const std::string line = GroupText(group) + "\n";
    if (text.size() + line.size() + tail.size() + 60 > bytes) {
      ++left_out;
    } else {
      text += line;
    }
  }
  if (left_out > 0) text += "  and " + std::to_string(left_out) + " more types.\n";
  return text + tail;
}

Json SummarySchema() {
  const Json alert =
      runs::ObjectSchema({{"type", runs::TextSchema("mpnanny://alerts/{type} explains it.")},
                          {"severity", runs::TextSchema("ERROR, WARNING or INFO.")},
                          {"count", runs::IntegerSchema("Alerts of this type.")},
                          {"first_step", runs::IntegerSchema("Step of the first.")},
                          {"layers", runs::ListSchema({{"type", "string"}}, "The first layers.")},
                          {"layer_count", runs::IntegerSchema("All of them.")},
                          {"repeats", runs::IntegerSchema("Samples in which it was seen.")}});
  const Json texts = {{"type", "string"}};
  return runs::ObjectSchema(
      {{"run", runs::TextSchema("Handle.")},
       {"name", runs::TextSchema("The run's name.")},
       {"status", {{"enum", {"running", "closed", "exception", "killed"}}}},
       {"verdict", runs::TextSchema("diagnose_run's.")},
       {"stable",
        {{"type", {"boolean", "null"}}, {"description", "Sound numbers; null: none recorded."}}},
       {"reasons", runs::ListSchema(texts, "Why, most important first.")},
       {"steps", runs::IntegerSchema("Recorded steps.")},
       {"loss", runs::ObjectSchema({{"first", runs::NumberSchema("First logged loss.")},
                                    {"last", runs::NumberSchema("Last logged loss.")},
                                    {"min", runs::NumberSchema("Least finite loss.")}})},
       {"loss_scale", runs::ObjectSchema({{"last", runs::NumberSchema("null: no scaler.")},
                                          {"min", runs::NumberSchema("Least scale.")},
                                          {"rises", runs::IntegerSchema("Moves up.")},
                                          {"falls", runs::IntegerSchema("Moves down.")},
                                          {"first", runs::NumberSchema("First scale.")}})},
       {"skipped_steps", runs::IntegerSchema("Skipped by the scaler.")},
       {"skipped_in_search", runs::IntegerSchema("Of these: the search for a scale at the start.")},
       {"alerts", runs::ListSchema(alert, "Worst first.")},
       {"alerts_left_out", runs::IntegerSchema("Types that did not fit.")},
       {"nonfinite_losses", runs::IntegerSchema("Steps with a NaN or Inf loss.")},
       {"nonfinite_gradient_steps", runs::IntegerSchema("Steps with a NaN or Inf gradient.")},
       {"sampled_steps", runs::IntegerSchema("Steps with statistics of tensors.")},
       {"first_step", runs::IntegerSchema("First recorded step.", true)},
       {"last_step", runs::IntegerSchema("Last recorded step.", true)},
       {"lr", runs::NumberSchema("Last learning rate.")},
       {"grad_norm", runs::ObjectSchema({{"last", runs::NumberSchema("Last global L2 norm.")},
                                         {"max", runs::NumberSchema("Greatest finite one.")}})},
       {"step_seconds", runs::NumberSchema("Mean time of a step.")},
       {"peak_memory", runs::IntegerSchema("Bytes of device memory.", true)},
       {"precision", runs::TextSchema("What values are judged by.", true)},
       {"started_at", runs::TextSchema("ISO 8601, UTC.")},
       {"notes", runs::ListSchema(texts, "What limits the record.")},
       {"course",
        {{"type", "object"},
         {"description",
          "At most 32 stretches of steps: lists step, loss (mean), loss_max, loss_scale "
          "(least)."}}},
       {"trend",
        {{"type", "object"},
         {"description",
          "Newer half: loss, grad_norm, loss_scale: per_100_steps, scatter (shares)."}}},
       {"forecast", runs::ListSchema({{"type", "object"}},
                                     "FP16 layers that will overflow: layer, now, end, step, "
                                     "earliest, latest.")},
       {"shadow", ShadowSchema()},
       {"environment", {{"type", "object"}, {"description", "As the monitor recorded it."}}}});
}

}  // namespace mpnanny::summary
