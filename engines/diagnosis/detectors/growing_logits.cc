// Factors in front of a softmax that grow without bound.
#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr double kTimes = 4;  // a query or key that has grown so much makes scores 16 times larger
constexpr double kExtreme = 20;       // and is of this size: scores of some hundred in a head of 32
constexpr double kScale = 100;        // CLIP's own bound
constexpr double kLogScale = 4.6052;  // ln 100: the parameter is mostly kept as a logarithm

bool IsQueryOrKey(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string leaf = dot == std::string::npos ? name : name.substr(dot + 1);
  return leaf == "q" || leaf == "k" || leaf == "wq" || leaf == "wk" ||
         NameHas(leaf,
                 {"query", "key", "q_proj", "k_proj", "to_q", "to_k", "qkv", "c_attn", "in_proj"});
}

// First, and greatest finite magnitude after it.
struct Growth {
  double first = 0, greatest = 0;
  int64_t at = 0;
};
Growth GrowthOf(const Series& series) {
  Growth growth;
  growth.first = series.first().absmax.value_or(0);
  for (const Measured& point : series.points) {
    if (point.absmax.value_or(0) > growth.greatest) {
      growth.greatest = *point.absmax;
      growth.at = point.step;
    }
  }
  return growth;
}

void DetectAttention(const Facts& facts, std::vector<Claim>& claims) {
  const Series* worst = nullptr;
  Growth most;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kActivation || !IsQueryOrKey(series.layer)) continue;
    const Growth growth = GrowthOf(series);
    if (growth.greatest > most.greatest) {
      most = growth;
      worst = &series;
    }
  }
  if (!worst || most.greatest < kExtreme || most.first <= 0 ||
      most.greatest < kTimes * most.first) {
    return;
  }
  Claim claim;
  claim.id = "attention-logits-grow";
  claim.sentence = {
      Form("{0} grew from {1} to {2} (step {3}): scores grow with the product of queries and keys, "
           "and the softmax over them comes down to single keys.",
           "{0} 从 {1} 增长到 {2}（第 {3} 步）：分数随 query 与 key 的乘积"
           "增长，其 softmax 会集中到单个 key 上。"),
      {runs::Name(worst->layer), runs::Number(most.first), runs::Number(most.greatest), most.at}};
  claim.strength = std::min(1.0, 0.6 + most.greatest / (20 * kExtreme));
  claim.place = PlaceOf(*worst, most.at, Phase::kForward,
                        Form("attention scores that grow without bound", "无界增长的注意力分数"));
  claims.push_back(std::move(claim));
}

void DetectLogitScale(const Facts& facts, std::vector<Claim>& claims) {
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kWeight || series.last().numel != 1 || series.type == "buffer" ||
        !NameHas(series.layer, {"logit_scale", "temperature", "tau", "scale", "log_t"})) {
      continue;
    }
    const double first = series.first().mean.value_or(0);
    double reached = first;
    int64_t at = series.first().step;
    std::optional<int64_t> crossed;
    for (const Measured& point : series.points) {
      const double value = point.mean.value_or(reached);
      if (value > reached) {
        reached = value;
        at = point.step;
      }
      if (value > kLogScale && !crossed) crossed = point.step;
    }
    // As a logarithm past ln 100, or as a factor past 100; and it came there in this run.
    const bool as_log = reached > kLogScale && reached < 100 && reached - first > 0.5;
    const bool as_factor = reached > kScale && reached > 2 * std::fabs(first);
    if (!as_log && !as_factor) continue;
    Claim claim;
    claim.id = "logit-scale-grows";
    claim.sentence = {
        Form("The learned scale {0} went from {1} to {2} (step {3}){4} and nothing bounds it; "
             "logits grow with it.",
             "可学习的缩放 {0} 从 {1} 变为 {2}（第 {3} 步）{4}，"
             "没有任何限制；logits 随之增长。"),
        {runs::Name(series.layer), runs::Number(first), runs::Number(reached), at,
         as_log ? Sentence(Form(", as a logarithm a factor of {0}", "，作为对数相当于 {0} 倍"),
                           {runs::Number(std::exp(reached))})
                : Sentence()}};
    claim.strength = 1;
    claim.fault = true;
    claim.place = PlaceOf(series, crossed.value_or(at), Phase::kForward,
                          {Form("a logit scale beyond 100 in {0}", "{0} 中超过 100 的 logit 缩放"),
                           {runs::Name(series.layer)}});
    claims.push_back(std::move(claim));
    return;
  }
}

}  // namespace

void DetectGrowingLogits(const Facts& facts, std::vector<Claim>& claims) {
  DetectAttention(facts, claims);
  DetectLogitScale(facts, claims);
}

}  // namespace mpnanny::diagnosis
