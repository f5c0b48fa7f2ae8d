// Does b mend a? What the diagnosis of a names as its fault, looked for in b.
//
// The answer is as good as the looking: b must have come to the step at which a's fault began, and
// what found it there (flags of every step, samples, shadow steps) must have looked at b as well.
// Plain values; free functions, which read no run.
#ifndef MPNANNY_ENGINES_COMPARISON_MEND_H_
#define MPNANNY_ENGINES_COMPARISON_MEND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/diagnosis/summary/verdict_words.h"

namespace mpnanny::comparison {

// What tells one fault from another. Texts are raw, but for `what`.
struct Fault {
  // What looked when it was found, and has to look at b.
  enum class FoundBy { kSteps, kSamples, kShadow };
  FoundBy found_by = FoundBy::kSteps;
  std::optional<int64_t> step;       // at which it began
  std::string what;                  // for people
  Word<Phase> phase;
  std::string layer, source;         // source: "/home/x/train.py:14"
  Word<FindingKind> kind;            // of what a shadow step measured
  std::string op;                    // of the same
  std::string cause;                 // the documented case that is its first cause
};

// A run alone: its diagnosis, and what looked at it.
struct RunHealth {
  summary::RunVerdict verdict;
  runs::Status status = runs::Status::kClosed;
  std::vector<Fault> faults;        // of a broken or degraded run; the first is the one it is for
  std::optional<int64_t> last_step, last_sample, last_shadow;
  int64_t steps = 0, samples = 0, shadow_steps = 0;
  bool monitored = true;  // false: a log
  // How the training is made, as far as the monitor heard it.
  bool heard = false, clips = false, accumulates = false;

  bool IsBad() const {
    return verdict.verdict == Health::kBroken || verdict.verdict == Health::kDegraded;
  }
};

enum class MendOutcome {
  kMended,          // b was looked at where a's fault was found, and shows no fault
  kStillThere,      // b shows the same fault
  kOtherFault,      // a's is not seen in b, but another one is
  kNotReached,      // b has not come to the step at which a's began
  kNotMeasured,     // what found a's did not look at b from there on
  kNotEstablished,  // b is not diagnosed as healthy, nor as faulty; or it trains another model
};
const char* MendName(MendOutcome outcome);
inline constexpr const char* kMendNames[] = {"mended",      "still_there",  "other_fault",
                                             "not_reached", "not_measured", "not_established"};

struct Mend {
  MendOutcome outcome = MendOutcome::kNotEstablished;
  std::string text;                 // one or two sentences: what a had, what b shows
  std::optional<Fault> of_a, of_b;  // of_b: the one that b shows
};

// nullopt: nothing is wrong with a, or nobody judged it. `other_model`: the two do not train one
// model.
std::optional<Mend> JudgeMend(const RunHealth& a, const RunHealth& b, bool other_model);

// Whether both are one fault, wherever an edit has moved its line within a file.
bool IsSameFault(const Fault& x, const Fault& y);

// "train.py:14" of "/home/x/train.py:14"; escaped.
std::string ShortSource(const std::string& source);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_MEND_H_
