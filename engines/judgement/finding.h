// What a shadow step finds, and how far each finding reaches.
//
// Plain values. Findings refer to each other by their number in the step.
#ifndef MPNANNY_ENGINES_JUDGEMENT_FINDING_H_
#define MPNANNY_ENGINES_JUDGEMENT_FINDING_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/run_words.h"
#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

// What was computed again in a wider type, and what that made of the error.
struct Cure {
  std::vector<std::string> lines;  // file:line, in the order in which they run
  std::vector<std::string> operators;
  std::string what;  // float32, or float64 where the operator ran in float32
  double error_before = 0;
  double error_after = 0;
};

// An operator in which an error came in that is too small there to be a finding.
struct CameIn {
  int place = 0;
  std::string dtype;  // "bfloat16", or "float32 → bfloat16"
  double error = 0;
};

// What brought in what was not finite before the step.
struct Carried {
  CarrierKind kind = CarrierKind::kData;
  std::string whose;    // what holds it, "" where that is not known
  std::string made_at;  // where memory was made that was never written
};

// An element of a backward pass whose derivative is infinite, or where such a one meets a 0.
struct Singular {
  bool is_pole = false;  // the derivative is infinite here
  // What went into the forward operator there, in the training and in the reference; NaN where that
  // is not known.
  double held = 0, reference = 0;
  std::string zero_op, zero_at;  // the operator and the line that made the 0 which it meets, or ""
};

// What is known of a change that got lost.
struct LostChange {
  int steps = 0, lost_in = 0, since = 0;
  double half_ulp = 0, relative_change = 0;
  bool lost_before = false;  // what came in had lost it already
};

// Where an error gets to. Only the first four say by themselves that something is wrong.
enum class Reached { kLoss, kGradient, kState, kInput, kOutput, kIndex, kDecision, kReplaced };

struct Reach {
  Reached what = Reached::kLoss;
  std::string name;  // of the gradient or the state; of what the program reads its line
  double error = 0;
};

// One operator at one place. Errors are relative, in the L2 norm, against the reference.
struct Finding {
  FindingKind kind = FindingKind::kAmplified;
  int place = 0;
  int number = 0;  // of the call: what is first comes first
  std::string dtype;
  std::vector<int64_t> shape;
  double share = 0;      // of the elements
  double magnitude = 0;  // largest of the reference
  double error_in = 0, error_out = 0;
  int parent = kNone;  // the finding whose error it works on
  Proof precision = Proof::kNotTested;
  std::optional<Cure> cure;
  Severity severity = Severity::kInfo;
  // Infinities of a backward pass that the program has read, as in a test, and let into no gradient
  // that an optimizer used: it has left the update out.
  bool discarded = false;
  int count = 1;  // in this step
  std::vector<Reach> reach;

  std::string why_no_cure;
  std::vector<std::array<double, 2>> operands;
  std::vector<std::pair<std::string, std::string>> inputs_from;  // operator, line
  std::optional<CameIn> came_in;
  bool rounded_before = false;
  std::optional<Singular> singular;
  std::optional<Carried> carried;
  std::optional<LostChange> lost;

  // It gets to `what`, with at least this error.
  void Reaches(Reached what, const std::string& name, double error);
  bool GetsTo(Reached what) const;
  bool GetsOnlyTo(std::initializer_list<Reached> these) const;
};

}  // namespace mpnanny::judgement

namespace mpnanny {
template <>
struct Vocabulary<judgement::Reached> {
  static constexpr const char* kNames[] = {"loss",   "gradient", "state",    "input",
                                           "output", "index",    "decision", "replaced"};
};
}  // namespace mpnanny

#endif  // MPNANNY_ENGINES_JUDGEMENT_FINDING_H_
