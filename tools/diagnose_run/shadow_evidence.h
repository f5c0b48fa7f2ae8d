// What shadow steps measured of a run, as evidence for its diagnosis: which operator at which line
// went wrong against FP64, and which findings are one and the same mistake.
//
// Plain values; free functions.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_SHADOW_EVIDENCE_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_SHADOW_EVIDENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/runs/samples.h"
#include "tools/runs/shadow.h"

namespace mpnanny::diagnose_run {

// The steps after an ERROR in which the monitor looks again (docs/shadow.md).
inline constexpr int64_t kStepsLookedAtAfter = 2;

struct MeasuredFinding {
  runs::ShadowFinding finding;  // complete
  std::string module;           // raw; "" for none
};

// Findings of one mistake.
struct Mechanism {
  std::vector<size_t> findings;  // indices into ShadowEvidence::findings; the first is the one that leads
};

struct ShadowEvidence {
  std::vector<int64_t> shadow_steps;      // ascending
  std::vector<MeasuredFinding> findings;  // ERROR and WARNING, in order of time; at most 24
  int64_t left_out = 0;                   // more of those
  std::vector<MeasuredFinding> minor;  // INFO, worst first, at most 3
  std::vector<Mechanism> mechanisms;      // worst first, then by time
  std::vector<std::string> notes;         // what limited the reading

  const MeasuredFinding& Lead(const Mechanism& mechanism) const {
    return findings[mechanism.findings.front()];
  }
};

// Empty for a run without shadow data.
Result<ShadowEvidence> ReadShadowEvidence(const runs::Source& source, runs::Layers& layers);

// Findings are one mistake where they lie on one line, where the lines that cure one hold the other,
// and where one is what follows from a value out of range earlier in the same step.
std::vector<Mechanism> GroupFindings(const std::vector<MeasuredFinding>& findings);

// Takes away mechanisms that only show weights or batches which were not finite before their step:
// what came of an earlier failure. A batch is one only after the first bad step (nullopt: none).
void SetAsideConsequences(ShadowEvidence& measured, std::optional<int64_t> first_bad_step);

// True of kinds that give values which are not finite.
bool GivesNonFinite(const runs::ShadowFinding& finding);

// True where a value in FP32 or wider was not changed because the change is so small: what is to be
// asked then is why it is.
bool IsTinyChange(const runs::ShadowFinding& finding);

// The lines that it points at, the finding's own first, then those of its cure; raw "file:line".
std::vector<std::string> LinesOf(const runs::ShadowFinding& finding);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_SHADOW_EVIDENCE_H_
