// Facts, claims and findings for tests of the causes, put together by hand.
#ifndef MPNANNY_TESTS_RUNS_CAUSES_FACTS_H_
#define MPNANNY_TESTS_RUNS_CAUSES_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engines/diagnosis/causes/causes.h"

namespace mpnanny::diagnosis {

inline runs::ShadowFinding FaultOf(const std::string& kind, int64_t step,
                                   const std::string& phase = "forward") {
  runs::ShadowFinding finding;
  finding.kind = Word<FindingKind>(kind);
  finding.severity = Severity::kError;
  finding.step = step;
  finding.phase = Word<Phase>(phase);
  finding.dtype = "float16";
  finding.op = "aten.mul.Tensor";
  finding.source = "model.py:12";
  finding.proof = Proof::kNotTested;
  return finding;
}

// Each finding is a mistake of its own.
inline Facts WithFindings(const std::vector<runs::ShadowFinding>& findings) {
  Facts facts;
  for (const auto& finding : findings) {
    facts.measured.mechanisms.push_back({{facts.measured.findings.size()}});
    facts.measured.findings.push_back({finding, ""});
  }
  return facts;
}

inline void Breaks(Facts& facts, int64_t step, const std::string& phase = "forward",
                   Onset::Place place = Onset::Place::kFirstSeen) {
  Onset onset;
  onset.step = step;
  onset.phase = Word<Phase>(phase);
  onset.place = place;
  facts.onset = onset;
}

inline Facts Logged(const std::string& signal) {
  Facts facts;
  facts.log_hits.emplace_back().signal = signal;
  return facts;
}

// Measured; what is only recognised: with another ground.
inline Claim Sure(const std::string& id) {
  Claim claim;
  claim.id = id;
  claim.ground = Ground::kMeasured;
  claim.strength = 1;
  claim.sentence = "Seen: " + id + ".";
  return claim;
}

inline SeenAlert Raised(const std::string& type) {
  SeenAlert alert;
  alert.row.type = Word<AlertType>(type);
  alert.row.phase = Phase::kOptimizer;
  return alert;
}

inline const Hypothesis* NamedIn(const std::vector<Hypothesis>& causes, const std::string& id) {
  for (const Hypothesis& each : causes) {
    if (each.cause && each.cause->id == id) return &each;
  }
  return nullptr;
}

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_TESTS_RUNS_CAUSES_FACTS_H_
