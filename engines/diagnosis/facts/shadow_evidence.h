// What shadow steps measured of a run, as evidence for its diagnosis: which operator at which line
// went wrong against FP64, and which findings are one and the same mistake.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_SHADOW_EVIDENCE_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_SHADOW_EVIDENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/samples.h"
#include "engines/runs/shadow.h"

namespace mpnanny::diagnosis {

// The steps after an ERROR in which the monitor looks again (docs/shadow.md).
inline constexpr int64_t kStepsLookedAtAfter = 2;

struct MeasuredFinding {
  runs::ShadowFinding finding;  // complete
  std::string module;           // raw; "" for none
};

// Findings of one mistake.
struct Mechanism {
  std::vector<size_t>
      findings;  // indices into ShadowEvidence::findings; the first is the one that leads
};

struct ShadowEvidence {
  std::vector<runs::ShadowStep> steps;    // ascending
  std::vector<MeasuredFinding> findings;  // ERROR and WARNING, in order of time; at most 24
  int64_t left_out = 0;                   // more of those
  std::vector<MeasuredFinding> minor;     // INFO, worst first, at most 3
  // Of any severity: results that came near the end of their format, nearest first, at most 4.
  std::vector<MeasuredFinding> near_limit;
  std::vector<Mechanism> mechanisms;  // worst first, then by time
  std::vector<std::string> notes;     // what limited the reading

  const MeasuredFinding& Lead(const Mechanism& mechanism) const {
    return findings[mechanism.findings.front()];
  }
};

// Empty for a run without shadow data.
Result<ShadowEvidence> ReadShadowEvidence(const runs::Source& source, runs::Layers& layers);

// Findings are one mistake where they lie on one line, where the lines that cure one hold the
// other, and where one is what follows from a value out of range earlier in the same step.
std::vector<Mechanism> GroupFindings(const std::vector<MeasuredFinding>& findings);

// Takes away mechanisms that only show states or batches which were not finite before their step:
// what came of an earlier failure. Those of the first bad step itself brought it in, and a batch
// may be as bad right after it (nullopt: there is none, and what no loss, gradient or state has met
// is no fault).
void SetAsideConsequences(ShadowEvidence& measured, std::optional<int64_t> first_bad_step);

// Takes away mechanisms that the whole run shows to be no fault: a schedule that went on in the few
// steps that a scaler leaves out anyway, and a mean that is near 0 because its terms are meant to
// cancel, whose error reaches nothing but the printed loss, and changes too small for FP32 where
// the loss has fallen (what is nearly settled). And notes about gradients that
// overflowed while a scaler looked for its scale.
void SetAsideMinor(const summary::Summary& steps, ShadowEvidence& measured);

// How near to the end of its format the result was, 0 to 1: of exponentials by what goes in. 0
// where that is not known.
double NearnessToLimit(const runs::ShadowFinding& finding);

// Whether something came of it: a value that is left in an output may never be used.
bool IsUsed(const runs::ShadowFinding& finding);

// True of kinds that give values which are not finite.
bool GivesNonFinite(const runs::ShadowFinding& finding);

// True where a value in FP32 or wider was not changed because the change is so small: what is to be
// asked then is why it is.
bool IsTinyChange(const runs::ShadowFinding& finding);
// A value that left the range of every 32-bit format.
bool IsTooLargeForFp32(const runs::ShadowFinding& finding);

// The finding's own line first, then the one that gave it its format and those of its cure; raw
// "file:line".
std::vector<std::string> LinesToChange(const runs::ShadowFinding& finding);

// The lines that it points at: those, then the ones that its function was called from.
std::vector<std::string> LinesOf(const runs::ShadowFinding& finding);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_SHADOW_EVIDENCE_H_
