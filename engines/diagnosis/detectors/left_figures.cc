// Figures of a log that left their level for good while its loss looks sound.
#include <algorithm>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/figure_sense.h"
#include "engines/runs/import/field.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

// Whether a score or an error rate of the evaluation improved.
bool EvaluatesBetter(const Progress& progress) {
  const auto& scores = progress.scores;
  const auto& evaluations = progress.evaluations;
  return std::any_of(scores.begin(), scores.end(),
                     [](const Improved& each) { return imports::IsAside(LowerCase(each.name)); }) ||
         std::any_of(evaluations.begin(), evaluations.end(), [](const Improved& each) {
           return runs::SenseOf(each.name) == runs::Sense::kError;
         });
}

}  // namespace

void DetectLeftFigures(const Facts& facts, std::vector<Claim>& claims) {
  using How = LeftFigure::How;
  using runs::Form;
  for (const LeftFigure& left : facts.left) {
    Claim claim;
    claim.id = "figure-left-its-level";
    claim.ground = Ground::kMeasured;
    claim.strength = 0.5;
    // An entropy that goes to nothing may be that of a policy that is sure and right. What is
    // evaluated in two ways, and is better in the other, is not worse.
    const bool better = left.how == How::kRose && EvaluatesBetter(facts.progress);
    claim.fault = left.how != How::kCollapsed && !better;
    claim.open = !claim.fault;
    const std::vector<runs::Sentence> parts = {
        runs::Name(left.name), runs::Number(left.best, 4), PlaceText(left.at_best),
        PlaceText(left.from),  runs::Number(left.last, 4), PlaceText(left.at_last)};
    switch (left.how) {
      case How::kRose:
        claim.sentence = {
            Form("{0} was {1} at {2}, has stayed more than a tenth above that since {3}, and is "
                 "{4} at {5}: what is evaluated gets worse, whatever the training loss does.",
                 "{0} 在{2}为 {1}，从{3}起一直高出十分之一以上，{5}为 {4}："
                 "无论训练损失如何，评估结果在变差。"),
            parts};
        break;
      case How::kFell:
        claim.sentence = {
            Form("{0} had reached {1} ({2}), has stayed more than a tenth below that since {3}, "
                 "and is {4} at {5}.",
                 "{0} 曾达到 {1}（{2}），从{3}起一直低十分之一以上，{5}为 {4}。"),
            parts};
        break;
      case How::kCollapsed:
        claim.sentence = {Form("Of {0}, {1} at first ({2}), next to nothing is left from {3} on: "
                               "{4} at {5}.",
                               "{0} 起初为 {1}（{2}），从{3}起几乎不剩：{5}为 {4}。"),
                          parts};
        break;
    }
    claims.push_back(std::move(claim));
  }
}

}  // namespace mpnanny::diagnosis
