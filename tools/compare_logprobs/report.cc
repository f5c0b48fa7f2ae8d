#include "tools/compare_logprobs/report.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "engines/mismatch/groups.h"
#include "engines/mismatch/judge.h"
#include "engines/mismatch/words.h"
#include "engines/runs/show.h"

namespace mpnanny::compare_logprobs {
namespace {

using mismatch::Agreement;
using mismatch::Call;
using mismatch::Calls;
using mismatch::Judgement;
using mismatch::Shape;
using runs::Language;

constexpr size_t kMostPoints = 60;
constexpr size_t kMostWays = 8, kMostRanksShown = 16;

constexpr std::array<const char*, kMismatchGroupings> kGroupings = {
    "position",       "answer_token",         "document",
    "after_boundary", "probability",          "other_experts",
    "answer_start",   "other_experts_before", "padding"};

std::vector<std::string> CasesOf(const Judgement& judgement) {
  std::vector<std::string> cases;
  switch (judgement.finding.shape) {
    case Shape::kNone:
      return cases;
    case Shape::kHead:
    case Shape::kStored:
      cases = {"lm-head-bf16-logprob-noise"};
      break;
    case Shape::kRouting:
      cases = {"moe-router-in-bf16"};
      break;
    default:
      break;
  }
  cases.insert(cases.end(),
               {"rl-trainer-vs-rollout-logprob-mismatch", "rl-mismatch-which-number-to-log"});
  return cases;
}

Json CallJson(const Call& call) {
  const LogprobMismatch& f = call.figures;
  Json json = {{"step", call.step}};
  if (call.own) json["update"] = *call.own;
  if (call.synced) json["synced"] = *call.synced;
  if (!call.log_name.empty()) {
    json["figure"] = EscapeControl(call.log_name, 200);
    json["value"] = JsonNumber(call.log_value);
    return json;
  }
  json["tokens"] = f.tokens;
  json["rms"] = JsonNumber(f.rms, 4);
  json["mean"] = JsonNumber(f.mean, 3);
  json["k1"] = JsonNumber(f.k1(), 3);
  json["k3"] = JsonNumber(f.k3, 3);
  json["p999"] = JsonNumber(f.p999, 4);
  json["largest"] = JsonNumber(f.largest, 4);
  json["largest_ratio"] = JsonNumber(std::exp(f.largest), 4);
  json["beyond"] = JsonNumber(f.beyond, 4);
  json["logit_error"] = JsonNumber(f.LogitError(), 3);
  return json;
}

Json CurveOf(const Calls& calls) {
  Json points = Json::array();
  const size_t count = calls.calls.size();
  const size_t stride = std::max<size_t>(1, (count + kMostPoints - 1) / kMostPoints);
  for (size_t i = 0; i < count; i += stride) {
    const Call& call = calls.calls[i];
    points.push_back(
        {call.shown_step(), JsonNumber(call.figures.rms, 3), JsonNumber(call.figures.k3, 2)});
  }
  return points;
}

// [rank, calls, rms], the furthest apart first.
Json RanksJson(const Calls& calls) {
  auto ranks = calls.ranks;
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.rms > b.rms; });
  ranks.resize(std::min(ranks.size(), kMostRanksShown));
  Json rows = Json::array();
  for (const auto& each : ranks) rows.push_back({each.rank, each.calls, JsonNumber(each.rms, 3)});
  return rows;
}

Json GroupsJson(const Calls& calls) {
  Json all = Json::object();
  const mismatch::MergedGroups merged(calls.calls);
  for (int by = 0; by < kMismatchGroupings; ++by) {
    const auto& groups = merged.By(static_cast<MismatchBy>(by));
    if (groups.size() < 2) continue;
    Json rows = Json::array();
    for (const auto& group : groups) {
      const Json from = by == static_cast<int>(MismatchBy::kProbability)
                            ? JsonNumber(kProbabilityEdges[static_cast<size_t>(group.from)], 4)
                            : Json(group.from);
      rows.push_back({from, group.tokens, JsonNumber(group.Rms(), 3)});
    }
    all[kGroupings[static_cast<size_t>(by)]] = std::move(rows);
  }
  return all;
}

Json WorstJson(const Call& call) {
  Json rows = Json::array();
  for (const MismatchToken& token : call.figures.worst) {
    Json row = {{"row", token.row}, {"place", token.place}};
    if (token.token >= 0) row["token"] = token.token;
    row["trainer"] = JsonNumber(token.trainer, 5);
    row["rollout"] = JsonNumber(token.rollout, 5);
    rows.push_back(std::move(row));
  }
  return rows;
}

// FP32's way, and those that come nearest to the rollout.
Json HeadJson(const Calls& calls) {
  Json rows = Json::array();
  const Call* const tried = mismatch::TriedHead(calls.calls);
  if (tried == nullptr) return rows;
  auto ways = tried->head;
  std::stable_sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
    return std::pair(a.name != "fp32", a.rollout_rest) <
           std::pair(b.name != "fp32", b.rollout_rest);
  });
  ways.resize(std::min(ways.size(), kMostWays));
  for (const auto& way : ways) {
    Json row = {{"way", EscapeControl(way.name, 40)}};
    if (way.value != 0) row["value"] = JsonNumber(way.value, 4);
    row["trainer_rest"] = JsonNumber(way.trainer_rest, 3);
    row["rollout_rest"] = JsonNumber(way.rollout_rest, 3);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json WordsJson(const mismatch::Words& words, Language language) {
  return {{"title", words.title.In(language)},
          {"measured", words.measured.In(language)},
          {"meaning", words.meaning.In(language)},
          {"fix", words.fix.In(language)}};
}

}  // namespace

Json ReportJson(const Asked& asked, const Calls& calls, const Judgement& judgement, size_t bytes) {
  const mismatch::Words words = mismatch::WordsOf(judgement, calls.calls);
  Json json = {{"of", asked.of},
               {"verdict", WordOf(judgement.agreement)},
               {"shape", WordOf(judgement.finding.shape)}};
  json.update(WordsJson(words, Language::kEnglish));
  json["cases"] = CasesOf(judgement);
  json["calls"] = calls.calls.size();
  if (!calls.calls.empty()) {
    const Call& worst = calls.calls[judgement.shown];
    json["first"] = CallJson(calls.calls.front());
    json["worst"] = CallJson(worst);
    json["last"] = CallJson(calls.calls.back());
    json["worst_tokens"] = WorstJson(worst);
    json["head"] = HeadJson(calls);
    json["rms_by"] = GroupsJson(calls);
    json["curve"] = CurveOf(calls);
  }
  if (calls.ranks.size() > 1) json["ranks"] = RanksJson(calls);
  if (asked.chinese_too) json["zh"] = WordsJson(words, Language::kChinese);
  json["notes"] = calls.notes;
  for (const char* part : {"curve", "rms_by", "head", "notes"}) {
    if (DumpJson(json).size() <= bytes) break;
    json[part] = json[part].is_object() ? Json::object() : Json::array();
    json["left_out"].push_back(part);
  }
  return json;
}

std::string ReportText(const Json& report, size_t bytes) {
  const auto line = [&](const char* key) { return report.value(key, std::string()); };
  std::string text = line("title") + " (" + line("verdict") + ", shape: " + line("shape") + ")\n";
  text += line("measured") + "\n";
  if (!line("meaning").empty()) text += "What gives that: " + line("meaning") + "\n";
  if (!line("fix").empty()) text += "To do: " + line("fix") + "\n";
  const auto figures = [&](const char* name) {
    const Json& call = ValueAt(report, {name});
    if (!call.is_object() || !call.contains("tokens")) return;
    const auto shown = [&](const char* key) { return DumpJson(call[key]); };
    text += std::string(name) + ": update " +
            DumpJson(call.contains("update") ? call["update"] : call["step"]) + ", tokens " +
            shown("tokens") + ", rms " + shown("rms") + " nats, mean " + shown("mean") + ", k3 " +
            shown("k3") + ", 99.9 % below " + shown("p999") + ", largest ratio " +
            shown("largest_ratio") + ", share beyond e^±0.5 " + shown("beyond") + "\n";
  };
  figures("first");
  if (report.value("calls", 0) > 1) {
    figures("worst");
    figures("last");
  }
  for (const auto& [name, groups] : ValueAt(report, {"rms_by"}).items()) {
    std::string row = "rms by " + name + ":";
    for (const Json& group : groups) row += ' ' + DumpJson(group[0]) + ":" + DumpJson(group[2]);
    if (text.size() + row.size() + 1 > bytes) break;
    text += row + "\n";
  }
  for (const Json& way : ValueAt(report, {"head"})) {
    const std::string row = "head " + way.value("way", "") +
                            (way.contains("value") ? " " + DumpJson(way["value"]) : "") +
                            ": leaves " + DumpJson(way["rollout_rest"]) + " to the rollout, " +
                            DumpJson(way["trainer_rest"]) + " to the trainer";
    if (text.size() + row.size() + 1 > bytes) break;
    text += row + "\n";
  }
  for (const Json& note : ValueAt(report, {"notes"})) {
    const std::string row = "Note: " + note.get<std::string>();
    if (text.size() + row.size() + 1 > bytes) break;
    text += row + "\n";
  }
  return text;
}

Json ReportSchema() {
  const auto text = [](const char* description) {
    return Json{{"type", "string"}, {"description", description}};
  };
  const Json call = {
      {"type", "object"},
      {"description",
       "Of one comparison: d = log p(trainer) - log p(rollout) in nats; rms, mean, k1 and k3 "
       "(estimates of KL), 99.9th percentile and largest |d|, share of tokens beyond e^±0.5, and "
       "the error of a logit that would give this rms."}};
  const Json rows = {{"type", "array"}, {"items", Json::object()}};
  Json properties = {
      {"of", text("What was compared.")},
      {"verdict",
       {{"type", "string"},
        {"enum", {"agree", "degraded", "broken", "not_established"}},
        {"description", "agree: no more than formats must differ."}}},
      {"shape",
       text("none, rare_tokens (as 16 bits do), head, stored_in_16_bits, temperature, "
            "truncated, shifted, documents, padding, decoding, position, sequences, routing, "
            "stale_weights, grows, constant_offset, not_finite.")},
      {"title", text("The shape in words.")},
      {"measured", text("The numbers that say so.")},
      {"meaning", text("What gives such a shape.")},
      {"fix", text("What to do.")},
      {"cases", {{"type", "array"}, {"items", {{"type", "string"}}}}},
      {"calls", {{"type", "integer"}, {"description", "Comparisons that were read."}}},
      {"first", call},
      {"worst", call},
      {"last", call},
      {"worst_tokens", rows},
      {"head", rows},
      {"rms_by",
       {{"type", "object"},
        {"description", "By position, document, probability …: [from, tokens, rms]."}}},
      {"curve",
       {{"type", "array"}, {"description", "[update, rms, k3]"}, {"items", Json::object()}}},
      {"ranks",
       {{"type", "array"},
        {"description",
         "[rank, calls, rms] of ranks that called, the furthest apart first; it is "
         "the one that is shown."},
        {"items", Json::object()}}},
      {"zh", {{"type", "object"}}},
      {"notes", {{"type", "array"}, {"items", {{"type", "string"}}}}},
      {"left_out", rows}};
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", {"verdict", "shape", "measured", "calls"}}};
}

}  // namespace mpnanny::compare_logprobs
