#include "tools/runs/protocol_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "tools/runs/operator_words.h"
#include "tools/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kNamesShown = 3;
constexpr size_t kPlaceBytes = 160;
constexpr double kWholePower = 0.05;

std::string Listed(const std::vector<std::string>& names, size_t count) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    if (words.size() < kNamesShown && !name.empty()) words.push_back(Name(name));
  }
  const size_t more = count > words.size() ? count - words.size() : 0;
  std::string text = Join(words, ", ");
  if (more > 0) text += (text.empty() ? "" : " and ") + std::to_string(more) + " more";
  return text;
}

// "2 parameters (a.weight, a.bias)".
std::string Parameters(const ShadowRelation& relation) {
  const size_t count =
      relation.count && *relation.count >= 1 && *relation.count < 1e9
          ? static_cast<size_t>(*relation.count)
          : relation.parameters.size();
  const std::string names = Listed(relation.parameters, count);
  if (count == 1) return names.empty() ? "a parameter" : "the parameter " + names;
  return std::to_string(count) + " parameters" + (names.empty() ? "" : " (" + names + ")");
}

std::string Steps(const ShadowRelation& relation) {
  if (!relation.steps || !(*relation.steps >= 1 && *relation.steps < 1e9)) return "";
  return ", in all " + std::to_string(static_cast<int64_t>(*relation.steps)) +
         " steps that were looked at";
}

std::string At(const std::string& place) { return place.empty() ? "" : " at " + place; }

std::string NoGradient(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  std::string text = "The " + OperatorWord(finding.op) + At(place);
  text += finding.phase == "backward" ? " passes back a gradient that is 0 everywhere: "
                                      : " cuts off the gradient: ";
  text += Parameters(relation) + ", which the loss depends on and the optimizer holds, ";
  text += relation.none ? "got no gradient" : "got a gradient of exactly 0";
  if (relation.until && *relation.until >= 0 && *relation.until < 1e15) {
    text += " in the last steps that were looked at; up to step " +
            std::to_string(static_cast<int64_t>(*relation.until)) + " they got one that is not 0.";
    return text;
  }
  return text + Steps(relation) + ".";
}

std::string NotUpdated(const ShadowFinding& finding) {
  return "The gradient of " + Parameters(finding.relation) +
         " is not 0, but no optimizer holds it and it does not change" + Steps(finding.relation) +
         ".";
}

// Gradients of a loss that another optimizer has stepped on.
std::string OfAnother(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  std::string text = "The gradients that the optimizer gets still contain those that backward()" +
                     At(EscapeControl(relation.at, 300)) + " left for another optimizer's step";
  if (relation.share && *relation.share >= 0 && *relation.share <= 1) {
    const int percent = static_cast<int>(100 * *relation.share + 0.5);
    text += " (" + std::to_string(percent) + " % of their norm)";
  }
  if (!place.empty()) text += ": backward() at " + place + " adds to them";
  return text + Steps(relation) + ". zero_grad() of this optimizer is missing between the two.";
}

std::string NotZeroed(const ShadowFinding& finding, const std::string& place) {
  if (!finding.relation.at.empty()) return OfAnother(finding, place);
  std::string text = "The gradients that the optimizer gets still contain those of its step before";
  text += Steps(finding.relation);
  if (!place.empty()) text += ": backward() at " + place + " adds to them";
  return text + ". zero_grad() is missing, or comes where it does not reach these parameters.";
}

std::string NotRestored(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  std::string text = "Saved together were the states of " +
                     Listed(relation.saved, relation.saved.size()) + "; the load" + At(place) +
                     " restored only " + Listed(relation.restored, relation.restored.size()) + ".";
  if (!relation.what.empty()) text += " " + EscapeControl(relation.what, 300) + ".";
  return text;
}

std::string MovedOnSkip(const ShadowFinding& finding, const std::string& place) {
  const std::string what = finding.relation.what;
  return (what.empty() ? "A state" : EscapeControl(what, 200)) + At(place) +
         " went on in a step whose update was skipped; in other steps it changes exactly when the "
         "weights do.";
}

// "train.py:50 and train.py:52"
std::string Places(const std::vector<std::string>& sources) {
  std::vector<std::string> words;
  for (const std::string& source : sources) {
    if (words.size() < kNamesShown) words.push_back(EscapeControl(source, kPlaceBytes));
  }
  return Join(words, " and ");
}

// What the power of the scale in the gradients says of how it got there.
std::string HowScaled(const ShadowRelation& relation, double power) {
  const std::string entered = EscapeControl(relation.entered, kPlaceBytes);
  if (power > 0) {
    return "The loss is multiplied by it" + At(entered) + ", and the gradients are not divided by it";
  }
  if (relation.left.size() > 1) {
    return "It is taken out of the gradients more than once, at " + Places(relation.left);
  }
  return "The gradients are divided by it at " + Places(relation.left) +
         ", and the loss that backward() started from was not multiplied by it";
}

std::string LoadUndone(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  std::string text = "The first optimizer step" + At(place) + " after weights were loaded";
  const std::string names = Listed(relation.parameters, 0);
  text += At(EscapeControl(relation.at, 300)) + " moves weights";
  if (!names.empty()) text += " (such as " + names + ")";
  if (relation.times && *relation.times >= 1 && *relation.times < 1e12) {
    text += " " + std::to_string(static_cast<int64_t>(*relation.times)) +
            " times as far as the run's usual step";
  }
  return text +
         ", back to their values of before: the optimizer writes values of its own, as FP32 master "
         "copies, over those that were loaded.";
}

std::string PartialCopy(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  std::string text = "A copy of the network follows its weights, but not its buffers";
  const std::string names = Listed(relation.parameters, 0);
  if (!names.empty()) text += " (such as " + names + ")";
  text += ": they are used" + At(place) + " as they were at first, while the network's have moved";
  if (relation.share && *relation.share >= 0 && *relation.share <= 1) {
    const int percent = static_cast<int>(100 * *relation.share + 0.5);
    text += " by " + std::to_string(percent) + " % of their norm";
  }
  return text + Steps(relation) + ".";
}

std::string DroppedGradient(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const auto number = [](std::optional<double> value) {
    return value && *value >= 1 && *value < 1e9 ? std::to_string(static_cast<int64_t>(*value))
                                                : std::string("several");
  };
  return "Gradients are set to zero before the optimizer has used them: of the " +
         number(relation.passes) + " backward passes" + At(place) + " between two of its steps, " +
         number(relation.count) + " have no part in what it gets; only the last one counts" +
         Steps(relation) + ".";
}

std::string EmptyStep(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  std::string text = "The optimizer steps" + At(place) +
                     ", and none of its parameters has a gradient, although backward() runs: the "
                     "loss comes from other weights than those that the optimizer holds";
  if (relation.until && *relation.until >= 0 && *relation.until < 1e15) {
    text += ". Up to step " + std::to_string(static_cast<int64_t>(*relation.until)) +
            " they had gradients";
  }
  return text + ".";
}

std::string MovedWeights(const ShadowFinding& finding) {
  const ShadowRelation& relation = finding.relation;
  const auto whole = [](std::optional<double> value) {
    return value && *value >= 1 && *value < 1e12 ? std::to_string(static_cast<int64_t>(*value)) : "";
  };
  const std::string count = whole(relation.count), times = whole(relation.times);
  std::string text = "Something other than the optimizer moves the weights between two of its steps";
  if (!count.empty()) text += ", " + count + " times so far";
  if (finding.since) text += ", first before step " + std::to_string(*finding.since);
  if (!times.empty()) text += ", " + times + " times as far as a usual step";
  text += ", and the loss rises each time";
  if (relation.loss_before && relation.loss_after) {
    text += ", from " + Number(*relation.loss_before, 3) + " to " + Number(*relation.loss_after, 3) +
            " in the median";
  }
  return text + ".";
}

std::string ScaleDependent(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const std::string scale = relation.scale ? " (" + Number(*relation.scale) + " here)" : "";
  const double power = relation.power.value_or(0);
  const double whole = std::round(power);
  std::string text = "The gradients that the optimizer gets depend on the loss scale" + scale + ": ";
  if (whole != 0 && std::fabs(power - whole) < kWholePower) {
    text += "they are " + std::string(whole > 0 ? "multiplied" : "divided") + " by it";
    if (std::fabs(whole) > 1) text += " " + Number(std::fabs(whole)) + " times";
    return text + ", in " + Parameters(relation) + ". " + HowScaled(relation, whole) + ".";
  }
  text += "twice the scale makes them " + Number(std::exp2(power), 3) + " times as large, in " +
          Parameters(relation) + ". The " + OperatorWord(finding.op) + At(place) +
          " brings together what carries the scale and what does not";
  return text + ".";
}

// The kinds that are relations, and what they are called in a line.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kProtocolWords = {
    {{"no_gradient", "parameters that get no gradient"},
     {"not_updated", "parameters that no optimizer holds"},
     {"not_zeroed", "gradients that were not set to zero"},
     {"not_restored", "states that were not restored"},
     {"moved_on_skip", "a state that goes on in skipped steps"},
     {"scale_dependent", "gradients that depend on the loss scale"},
     {"load_undone", "a load that the next step undoes"},
     {"partial_copy", "buffers of a copy that do not follow"},
     {"dropped_gradient", "gradients that are dropped"},
     {"empty_step", "steps without a gradient"},
     {"moved_weights", "weights that something else moves"}}};

}  // namespace

std::string_view ProtocolWord(std::string_view kind) {
  const auto found = std::find_if(kProtocolWords.begin(), kProtocolWords.end(),
                                  [&](const auto& each) { return each.first == kind; });
  return found == kProtocolWords.end() ? std::string_view() : found->second;
}

bool IsProtocol(std::string_view kind) { return !ProtocolWord(kind).empty(); }

std::string ProtocolText(const ShadowFinding& finding, const std::string& place) {
  if (finding.kind == "no_gradient") return NoGradient(finding, place);
  if (finding.kind == "not_updated") return NotUpdated(finding);
  if (finding.kind == "not_zeroed") return NotZeroed(finding, place);
  if (finding.kind == "not_restored") return NotRestored(finding, place);
  if (finding.kind == "moved_on_skip") return MovedOnSkip(finding, place);
  if (finding.kind == "load_undone") return LoadUndone(finding, place);
  if (finding.kind == "dropped_gradient") return DroppedGradient(finding, place);
  if (finding.kind == "empty_step") return EmptyStep(finding, place);
  if (finding.kind == "moved_weights") return MovedWeights(finding);
  if (finding.kind == "partial_copy") return PartialCopy(finding, place);
  return ScaleDependent(finding, place);
}

}  // namespace mpnanny::runs
