#include "engines/diagnosis/facts/shadow_evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "engines/diagnosis/facts/onset.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/alerts.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kMostFindings = 24;
constexpr size_t kMostMinor = 3;
constexpr size_t kMostNearEnd = 4;
constexpr int kWarning = 1;        // of SeverityRank
constexpr double kNearEnd = 0.25;  // of the largest value; of an exponential's largest argument
constexpr double kNearEndExponent = 0.8;
constexpr double kManySkips = 0.05;  // of all steps: a schedule is elsewhere by then (skips.py)
constexpr double kNoLoss = 0.01;     // of the usual loss

bool SameLine(const runs::ShadowFinding& a, const runs::ShadowFinding& b) {
  return !a.source.empty() && a.source == b.source;
}

bool CureHolds(const runs::ShadowFinding& cured, const runs::ShadowFinding& other) {
  return cured.cure && !other.source.empty() &&
         std::find(cured.cure->lines.begin(), cured.cure->lines.end(), other.source) !=
             cured.cure->lines.end();
}

// What is not finite spreads within its step: the later place only passes it on.
bool Follows(const runs::ShadowFinding& first, const runs::ShadowFinding& later) {
  return GivesNonFinite(first) && GivesNonFinite(later) && first.step == later.step &&
         runs::PhaseRank(first.phase) <= runs::PhaseRank(later.phase);
}

bool IsOneMistake(const runs::ShadowFinding& first, const runs::ShadowFinding& later) {
  return SameLine(first, later) || CureHolds(first, later) || CureHolds(later, first) ||
         Follows(first, later);
}

bool CameOfFailure(const runs::ShadowFinding& lead, std::optional<int64_t> first_bad_step) {
  if (!lead.was_bad_before) return false;
  const bool state = lead.carrier.kind.empty() ? lead.proof != Proof::kExcluded
                                               : lead.carrier.kind == CarrierKind::kState;
  if (!first_bad_step) return state || !IsUsed(lead);
  // What nothing of the step uses explains no failure before it.
  const int64_t looked_at = IsUsed(lead) ? kStepsLookedAtAfter : 0;
  if (!state) return lead.step > *first_bad_step + looked_at;
  return lead.step > *first_bad_step || (lead.carrier.onset && *lead.carrier.onset < lead.step);
}

// A loss whose terms cancel by what they mean: an average of advantages, at a ratio of 1. No
// gradient depends on the sum.
bool IsCancelledLoss(const runs::ShadowFinding& finding, double usual) {
  const std::string_view op = runs::OperatorBaseName(finding.op);
  return finding.kind == FindingKind::kAmplified && finding.phase == Phase::kLoss &&
         (op == "mean" || op == "sum") && finding.magnitude &&
         *finding.magnitude < kNoLoss * usual &&
         std::all_of(finding.reach.begin(), finding.reach.end(),
                     [](const runs::ShadowReach& reach) {
                       return reach.what == "loss" || reach.what == "output";
                     });
}

void AddNew(const std::vector<std::string>& more, std::vector<std::string>& lines) {
  for (const std::string& line : more) {
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(line);
  }
}

}  // namespace

double NearnessToLimit(const runs::ShadowFinding& finding) {
  const double limit = LargestFinite(runs::ResultDtype(finding));
  if (limit <= 0 || !finding.magnitude || !(*finding.magnitude > 1)) return 0;
  const std::string_view op = runs::OperatorBaseName(finding.op);
  if (op == "exp" || op == "exp2" || op == "expm1" || op == "cosh" || op == "sinh") {
    const double share = std::log(*finding.magnitude) / std::log(limit);
    return share >= kNearEndExponent ? std::min(share, 1.0) : 0;
  }
  const double share = *finding.magnitude / limit;
  return share >= kNearEnd ? std::min(share, 1.0) : 0;
}

bool IsUsed(const runs::ShadowFinding& finding) {
  return std::any_of(finding.reach.begin(), finding.reach.end(),
                     [](const runs::ShadowReach& reach) { return reach.what != "output"; });
}

bool IsTooLargeForFp32(const runs::ShadowFinding& finding) {
  return finding.kind == FindingKind::kRange && finding.magnitude &&
         std::fabs(*finding.magnitude) > std::numeric_limits<float>::max();
}

bool GivesNonFinite(const runs::ShadowFinding& finding) {
  return finding.kind == FindingKind::kRange || finding.kind == FindingKind::kUndefined ||
         finding.kind == FindingKind::kDiverged;
}

bool IsTinyChange(const runs::ShadowFinding& finding) {
  return finding.kind == FindingKind::kLostChange &&
         (finding.dtype.ends_with("float32") || finding.dtype.ends_with("float64"));
}

std::vector<std::string> LinesToChange(const runs::ShadowFinding& finding) {
  std::vector<std::string> lines;
  if (!finding.source.empty()) lines.push_back(finding.source);
  if (finding.origin && !finding.origin->source.empty() &&
      finding.origin->source != finding.source) {
    lines.push_back(finding.origin->source);
  }
  std::vector<std::string> others = {finding.home};
  if (finding.cure)
    others.insert(others.end(), finding.cure->lines.begin(), finding.cure->lines.end());
  AddNew(others, lines);
  return lines;
}

std::vector<std::string> LinesOf(const runs::ShadowFinding& finding) {
  std::vector<std::string> lines = LinesToChange(finding);
  AddNew(finding.called_from, lines);
  return lines;
}

std::vector<Mechanism> GroupFindings(const std::vector<MeasuredFinding>& findings) {
  std::vector<Mechanism> mechanisms;
  for (size_t i = 0; i < findings.size(); ++i) {
    const auto known =
        std::find_if(mechanisms.begin(), mechanisms.end(), [&](const Mechanism& mechanism) {
          return std::any_of(mechanism.findings.begin(), mechanism.findings.end(), [&](size_t j) {
            return IsOneMistake(findings[j].finding, findings[i].finding);
          });
        });
    if (known == mechanisms.end()) {
      mechanisms.push_back({{i}});
    } else {
      known->findings.push_back(i);
    }
  }
  // Of one mistake the worst finding leads, of equally bad ones the first.
  const auto severity = [&](size_t i) { return runs::SeverityRank(findings[i].finding.severity); };
  for (Mechanism& mechanism : mechanisms) {
    std::stable_sort(mechanism.findings.begin(), mechanism.findings.end(),
                     [&](size_t a, size_t b) { return severity(a) < severity(b); });
  }
  std::stable_sort(mechanisms.begin(), mechanisms.end(),
                   [&](const Mechanism& a, const Mechanism& b) {
                     return severity(a.findings.front()) < severity(b.findings.front());
                   });
  return mechanisms;
}

void SetAsideConsequences(ShadowEvidence& measured, std::optional<int64_t> first_bad_step) {
  std::erase_if(measured.mechanisms, [&](const Mechanism& mechanism) {
    return CameOfFailure(measured.Lead(mechanism).finding, first_bad_step);
  });
}

namespace {

// One line that goes wrong in one way is told once, whatever part of the step it was met in.
void FoldRepeated(std::vector<MeasuredFinding>& findings) {
  std::vector<MeasuredFinding> folded;
  for (MeasuredFinding& each : findings) {
    const auto known =
        std::find_if(folded.begin(), folded.end(), [&](const MeasuredFinding& other) {
          return SameLine(each.finding, other.finding) && each.finding.kind == other.finding.kind &&
                 each.module == other.module &&
                 runs::OperatorBaseName(each.finding.op) ==
                     runs::OperatorBaseName(other.finding.op);
        });
    if (known == folded.end()) {
      folded.push_back(std::move(each));
      continue;
    }
    runs::ShadowFinding &kept = known->finding, &other = each.finding;
    const int64_t step = std::min(kept.step, other.step);
    if (runs::SeverityRank(other.severity) < runs::SeverityRank(kept.severity))
      std::swap(kept, other);
    kept.step = step;
    kept.last_step = std::max(kept.last_step, other.last_step);
    kept.repeats = std::max(kept.repeats, other.repeats);
    for (runs::ShadowReach& reach : other.reach) {
      const bool there = std::any_of(kept.reach.begin(), kept.reach.end(), [&](const auto& one) {
        return one.what == reach.what && one.name == reach.name;
      });
      if (!there) kept.reach.push_back(std::move(reach));
    }
  }
  findings = std::move(folded);
}

}  // namespace

void SetAsideMinor(const summary::Summary& steps, ShadowEvidence& measured) {
  const auto skipped = static_cast<double>(steps.skipped_steps);
  const bool few_skips = skipped < kManySkips * static_cast<double>(steps.steps);
  const double usual =
      std::max({std::fabs(steps.loss_start.value_or(0)), std::fabs(steps.loss_end.value_or(0)),
                std::fabs(steps.loss_min.value_or(0))});
  const bool fell = steps.loss_start && steps.loss_end && *steps.loss_end < *steps.loss_start;
  // A scaler looks for its scale by gradients that overflow.
  const int64_t search_ends = steps.first_step.value_or(0) + summary::SearchSkips(steps);
  std::erase_if(measured.minor, [&](const MeasuredFinding& each) {
    return GivesNonFinite(each.finding) && each.finding.phase == Phase::kBackward &&
           each.finding.last_step.value_or(each.finding.step) < search_ends;
  });
  std::erase_if(measured.mechanisms, [&](const Mechanism& mechanism) {
    const MeasuredFinding& lead = measured.Lead(mechanism);
    const bool skips = lead.finding.kind == FindingKind::kMovedOnSkip && few_skips;
    const bool settled = fell && IsTinyChange(lead.finding);
    if (!skips && !settled && !IsCancelledLoss(lead.finding, usual)) return false;
    for (const size_t index : mechanism.findings) {
      MeasuredFinding minor = measured.findings[index];
      minor.finding.severity = Severity::kInfo;
      if (measured.minor.size() < kMostMinor) measured.minor.push_back(std::move(minor));
    }
    return true;
  });
}

Result<ShadowEvidence> ReadShadowEvidence(const runs::Source& source, runs::Layers& layers) {
  ShadowEvidence measured;
  MPN_TRY_ASSIGN(auto steps, runs::ReadShadowSteps(source));
  measured.steps = std::move(steps.steps);
  measured.notes = std::move(steps.notes);
  MPN_TRY_ASSIGN(auto findings, runs::ReadShadowFindings(source));
  for (std::string& note : findings.notes) {
    if (std::find(measured.notes.begin(), measured.notes.end(), note) == measured.notes.end()) {
      measured.notes.push_back(std::move(note));
    }
  }
  for (runs::ShadowFinding& finding : findings.rows) {
    const bool minor = runs::SeverityRank(finding.severity) > kWarning;
    const bool near = !GivesNonFinite(finding) && NearnessToLimit(finding) > 0 &&
                      measured.near_limit.size() < kMostNearEnd;
    const bool full =
        minor ? measured.minor.size() == kMostMinor : measured.findings.size() == kMostFindings;
    if (full && !minor) ++measured.left_out;
    if (full && !near) continue;
    MPN_TRY(runs::CompleteFinding(source, finding));
    MeasuredFinding entry{std::move(finding), ""};
    if (entry.finding.layer_id) {
      MPN_TRY_ASSIGN(auto layer, layers.Find(*entry.finding.layer_id));
      entry.module = layer.name;
    }
    if (near) measured.near_limit.push_back(entry);
    if (!full) (minor ? measured.minor : measured.findings).push_back(std::move(entry));
  }
  std::stable_sort(measured.near_limit.begin(), measured.near_limit.end(),
                   [](const MeasuredFinding& a, const MeasuredFinding& b) {
                     return NearnessToLimit(a.finding) > NearnessToLimit(b.finding);
                   });
  // Within a step in its order: what is wrong in the forward pass explains the backward pass.
  const auto moment = [](const MeasuredFinding& each) {
    return std::tuple(each.finding.step, runs::PhaseRank(each.finding.phase),
                      each.finding.finding_id);
  };
  std::stable_sort(
      measured.findings.begin(), measured.findings.end(),
      [&](const MeasuredFinding& a, const MeasuredFinding& b) { return moment(a) < moment(b); });
  FoldRepeated(measured.findings);
  FoldRepeated(measured.minor);
  measured.mechanisms = GroupFindings(measured.findings);
  return measured;
}

}  // namespace mpnanny::diagnosis
