#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

// A loss that triples over its least level, or a gradient norm 30 times its median, is no noise of
// training.
constexpr double kLossRise = 3;
constexpr double kNormRise = 30;
constexpr double kEarly = 0.1;     // of the run
constexpr double kFarBelow = 0.2;  // of the level
constexpr double kUndone = 0.3;    // of how far the loss had fallen
constexpr double kNormGrew = 5;
// A loss this far above its least level, where gradients have grown beside it, is rising again.
constexpr double kAboveLeast = 1.2;
constexpr double kNormGrewWithIt = 3;

// What the loss had fallen by is in good part undone at the end, and gradients have grown with it:
// the noise of a loss, or a term that a schedule adds to it, leaves gradients as they are.
bool RoseAgain(const Facts& facts) {
  const Course& c = facts.course;
  const summary::Summary& s = facts.summary;
  if (!c.norm_at_low || !(*c.norm_at_low > 0) || !facts.turns.last_norm || !s.loss_end)
    return false;
  const double grown = *facts.turns.last_norm / *c.norm_at_low;
  const bool above = c.loss_low && *c.loss_low > 0 && s.loss_start && *s.loss_start > *s.loss_end &&
                     s.finite_losses >= summary::kLossesForTrend &&
                     *s.loss_end > kAboveLeast * *c.loss_low;
  return (IsUndone(facts) && grown > kNormGrew) || (above && grown > kNormGrewWithIt);
}

}  // namespace

bool InNarrowRange(const Facts& facts) {
  const auto narrow = [](const std::string& format) {
    return format == "float16" || format.starts_with("float8");
  };
  // What the operator itself made knows best.
  for (const NanOrigin& origin : facts.origins) {
    if (!origin.backward && !origin.dtype.empty()) return narrow(origin.dtype);
  }
  // Then the tensor's own format; FP32 inside an FP16 run is what autocast keeps on purpose.
  if (facts.trend && !facts.trend->dtype.empty()) {
    return narrow(facts.trend->dtype) || (facts.onset && facts.onset->is_overflow);
  }
  return facts.precision == Precision::kFp16 || facts.precision == Precision::kFp8;
}

Divergence FindDivergence(const Facts& facts) {
  const Course& c = facts.course;
  Divergence found;
  found.loss = c.loss_low && c.loss_greatest && *c.loss_low > 0 &&
               *c.loss_greatest > kLossRise * *c.loss_low && c.finite_losses >= 3;
  found.norm = c.norm_median && c.norm_greatest && *c.norm_median > 0 &&
               *c.norm_greatest > kNormRise * *c.norm_median;
  found.again = !facts.onset && RoseAgain(facts);
  found.for_good = found.again || (!facts.onset && LossRose(facts));
  return found;
}

bool LossRose(const Facts& facts) {
  // The loss of a critic grows with the rewards that it has to tell.
  const bool earns = facts.progress.rewarded && !facts.progress.scores.empty();
  return !facts.of_players && !earns && summary::LossRose(facts.summary);
}

bool IsUndone(const Facts& facts) {
  const summary::Summary& s = facts.summary;
  const std::optional<double>& low = facts.course.loss_low;
  return s.loss_start && s.loss_end && low && s.finite_losses >= summary::kLossesForTrend &&
         *s.loss_end - *low > kUndone * (*s.loss_start - *low) && *s.loss_start > *low;
}

bool WasGotOver(const Facts& facts, int64_t step, double level) {
  const summary::Summary& s = facts.summary;
  if (!s.first_step || !s.last_step || !s.loss_end) return false;
  const auto into = static_cast<double>(step - *s.first_step);
  const auto length = static_cast<double>(*s.last_step - *s.first_step);
  return into < kEarly * length && *s.loss_end < level - kFarBelow * std::fabs(level);
}

const Claim* FindClaim(const std::vector<Claim>& claims, std::string_view id) {
  const auto it = std::find_if(claims.begin(), claims.end(),
                               [&](const Claim& claim) { return claim.id == id; });
  return it == claims.end() ? nullptr : &*it;
}

bool IsHalf(std::string_view dtype) { return dtype == "float16"; }
bool IsSixteen(std::string_view dtype) { return dtype == "float16" || dtype == "bfloat16"; }

bool NameHas(const std::string& name, std::initializer_list<std::string_view> words) {
  const std::string lower = LowerCase(name);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

FaultPlace PlaceOf(const Series& series, int64_t step, Phase phase, runs::Sentence what) {
  return {step, phase, series.layer, series.type, series.source, std::move(what)};
}

std::string WeightDtype(const Facts& facts) {
  std::map<std::string, double> elements;
  for (const Series& series : facts.profile.series) {
    if (series.kind == runs::kWeight && series.type != "buffer") {
      elements[series.dtype] += series.last().numel;
    }
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? "" : most->first;
}

bool UsesHalf(const Facts& facts) {
  if (facts.precision == Precision::kFp16 || facts.loop.autocast == "float16") return true;
  return std::any_of(facts.profile.series.begin(), facts.profile.series.end(),
                     [](const Series& series) {
                       return IsHalf(series.dtype) &&
                              (series.kind == runs::kActivation || series.kind == runs::kWeight);
                     });
}

bool IsScaled(const Facts& facts) {
  return facts.summary.scale_first.has_value() && facts.summary.scale_max.value_or(1) != 1;
}

bool IsOperator(const NanOrigin& origin, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&op = origin.op](std::string_view name) {
    return op == name || (op.size() == name.size() + 1 && op.back() == '_' && op.starts_with(name));
  });
}

runs::Sentence OperatorName(const NanOrigin& origin) {
  const std::string place = origin.place.empty() ? "" : " (" + origin.place + ")";
  if (!origin.backward || origin.of.empty()) return EscapeControl(origin.op + place, 200);
  return runs::Sentence::InEach(EscapeControl("the backward pass of " + origin.of + place, 200),
                                EscapeControl(origin.of + place, 200) + " 的反向传播");
}

const Series* LastOutput(const Facts& facts) {
  const Series* last = nullptr;
  for (const Series& series : facts.profile.series) {
    if (series.kind == runs::kActivation && series.type != "operator" &&
        (!last || series.position >= last->position)) {
      last = &series;
    }
  }
  return last;
}

}  // namespace mpnanny::diagnosis
