// What kind of mistake a shadow step measured, as a sign that cases list.
#include <algorithm>

#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/causes/measured_signs.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::diagnosis {

namespace {

// The kind of operator is measured; that it is one documented case of its kind is not.
constexpr double kKindOnly = 0.6;

runs::Sentence AboutMeasured() {
  return runs::Form("This case is about what was measured.", "该案例说的就是所测到的内容。");
}

// The finding that explains the first bad value; nullptr if none does.
const runs::ShadowFinding* MeasuredOrigin(const Facts& facts) {
  const Mechanism* mechanism = LeadingMechanism(facts);
  return mechanism && ExplainsOnset(facts, *mechanism) ? &facts.measured.Lead(*mechanism).finding
                                                       : nullptr;
}

}  // namespace

bool IsRuledOut(const Facts& facts, std::string_view sign) {
  const runs::ShadowFinding* origin = MeasuredOrigin(facts);
  if (!origin) return false;
  const auto signs = SignsOf(*origin);
  return IsNoOperatorsMistake(*origin) ||
         (!signs.empty() && std::find(signs.begin(), signs.end(), sign) == signs.end());
}

namespace {

// The sign by which documented cases know a fault that is measured and makes no value bad.
const char* SignOf(const runs::ShadowFinding& finding) {
  if (finding.kind == FindingKind::kNotZeroed) return "gradients-not-zeroed";
  if (finding.kind == FindingKind::kFlushed && finding.phase == Phase::kBackward &&
      finding.proof == Proof::kProven) {
    return "gradients-flushed";
  }
  return nullptr;
}

void TellFaults(const Facts& facts, std::vector<Claim>& claims) {
  for (const MeasuredFinding& each : facts.measured.findings) {
    const char* sign = SignOf(each.finding);
    if (sign == nullptr || FindClaim(claims, sign)) continue;
    Claim claim;
    claim.id = sign;
    claim.ground = Ground::kMeasured;
    claim.sentence = AboutMeasured();
    claim.strength = 1;
    claim.told = true;
    claim.place = FaultPlace{each.finding.step,
                             each.finding.phase,
                             "",
                             "",
                             each.finding.source,
                             runs::WordsOf(each.finding, each.module).what.Bare()};
    claims.push_back(std::move(claim));
  }
}

}  // namespace

void DetectMeasuredOrigin(const Facts& facts, std::vector<Claim>& claims) {
  TellFaults(facts, claims);
  const runs::ShadowFinding* origin = MeasuredOrigin(facts);
  if (!origin) return;
  const auto signs = SignsOf(*origin);
  // Of several it may be, none is sure.
  if (signs.size() != 1 || FindClaim(claims, signs.front())) return;
  Claim claim;
  claim.id = signs.front();
  claim.ground = Ground::kMeasured;
  claim.sentence = AboutMeasured();
  claim.strength = kKindOnly;
  claim.told = true;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
