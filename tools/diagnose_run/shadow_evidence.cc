#include "tools/diagnose_run/shadow_evidence.h"

#include <algorithm>
#include <set>

#include "tools/diagnose_run/onset.h"
#include "tools/runs/alerts.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr size_t kMostFindings = 24;
constexpr size_t kMostMinor = 3;
constexpr int kWarning = 1;  // of SeverityRank

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
         PhaseRank(first.phase) <= PhaseRank(later.phase);
}

bool IsOneMistake(const runs::ShadowFinding& first, const runs::ShadowFinding& later) {
  return SameLine(first, later) || CureHolds(first, later) || CureHolds(later, first) ||
         Follows(first, later);
}

}  // namespace

bool GivesNonFinite(const runs::ShadowFinding& finding) {
  return finding.kind == "range" || finding.kind == "undefined" || finding.kind == "diverged";
}

bool IsTinyChange(const runs::ShadowFinding& finding) {
  return finding.kind == "lost_change" &&
         (finding.dtype.ends_with("float32") || finding.dtype.ends_with("float64"));
}

std::vector<std::string> LinesOf(const runs::ShadowFinding& finding) {
  std::vector<std::string> lines;
  if (!finding.source.empty()) lines.push_back(finding.source);
  if (finding.origin && !finding.origin->source.empty() &&
      finding.origin->source != finding.source) {
    lines.push_back(finding.origin->source);
  }
  if (!finding.cure) return lines;
  for (const std::string& line : finding.cure->lines) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
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
    const runs::ShadowFinding& lead = measured.Lead(mechanism).finding;
    if (!lead.was_bad_before) return false;
    return lead.precision != "excluded" ||
           (first_bad_step && lead.step > *first_bad_step + kStepsLookedAtAfter);
  });
}

Result<ShadowEvidence> ReadShadowEvidence(const runs::Source& source, runs::Layers& layers) {
  ShadowEvidence measured;
  auto steps = runs::ReadShadowSteps(source);
  if (!steps) return steps.error();
  for (const runs::ShadowStep& step : steps->steps) measured.shadow_steps.push_back(step.step);
  measured.notes = std::move(steps->notes);
  auto findings = runs::ReadShadowFindings(source);
  if (!findings) return findings.error();
  for (std::string& note : findings->notes) {
    if (std::find(measured.notes.begin(), measured.notes.end(), note) == measured.notes.end()) {
      measured.notes.push_back(std::move(note));
    }
  }
  for (runs::ShadowFinding& finding : findings->rows) {
    const bool minor = runs::SeverityRank(finding.severity) > kWarning;
    if (minor && measured.minor.size() == kMostMinor) continue;
    if (!minor && measured.findings.size() == kMostFindings) {
      ++measured.left_out;
      continue;
    }
    if (auto done = runs::CompleteFinding(source, finding); !done) return done.error();
    MeasuredFinding entry{std::move(finding), ""};
    if (entry.finding.layer_id) {
      auto layer = layers.Find(*entry.finding.layer_id);
      if (!layer) return layer.error();
      entry.module = layer->name;
    }
    (minor ? measured.minor : measured.findings).push_back(std::move(entry));
  }
  // Within a step in the order in which the monitor met them.
  std::stable_sort(measured.findings.begin(), measured.findings.end(),
                   [](const MeasuredFinding& a, const MeasuredFinding& b) {
                     return std::pair(a.finding.step, a.finding.finding_id) <
                            std::pair(b.finding.step, b.finding.finding_id);
                   });
  measured.mechanisms = GroupFindings(measured.findings);
  return measured;
}

}  // namespace mpnanny::diagnose_run
