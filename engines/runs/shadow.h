// What shadow steps found: steps in which every operator ran a second time in FP64, and where the
// values that the training held differ from that reference.
//
// Plain values, free functions and one cursor of one call. A database of version 1, or one that
// lacks a table or a column, has no shadow data: that is no error. What is damaged ends the reading
// with a note. Memory is bounded whatever the file holds. Over several ranks what they told alike
// is one finding.
#ifndef MPNANNY_ENGINES_RUNS_SHADOW_H_
#define MPNANNY_ENGINES_RUNS_SHADOW_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/run_words.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {

// What a wrong value gets into. Texts here and below are raw: show them through EscapeControl.
struct ShadowReach {
  std::string what;  // loss | gradient | state | output | index | replaced (by nan_to_num)
  std::string name;  // "" if it has none
  std::optional<double> error;
};

// The smallest set of lines that FP32 cures.
struct ShadowCure {
  std::vector<std::string> lines;  // "file:40"
  std::vector<std::string> operators;
  std::string what;
  std::optional<double> error_before, error_after;  // nullopt: not finite, not measured
};

// Of kind diverged: where the values left the range, and how many times as large they had become.
struct ShadowGrowth {
  std::optional<double> growth;
  std::string at;  // "file:12"
  std::string op;
};

// Of kinds about gradients, parameters and states: what does not belong together as it should.
struct ShadowRelation {
  std::vector<std::string> parameters;  // raw names, the first ones
  std::optional<double> count;          // of all parameters that are meant
  std::optional<double> steps;          // in which it was so
  bool none = false;                    // .grad is None, not 0
  std::vector<std::string> saved, restored;
  std::string what;
  std::string given;  // the type of what was loaded, where it is held in another one
  // Of gradients that depend on the loss scale: the power of it that is in them, its value, where
  // the loss was multiplied by it ("" if not), and the lines at which it left the gradients.
  std::optional<double> power, scale;
  std::string entered;
  std::vector<std::string> left;
  std::string at;               // "file:line" of another line that has a part in it
  std::optional<double> share;  // of the norm, 0 to 1
  std::optional<double> times;  // as large as what is usual
  std::optional<double> loss_before, loss_after;  // medians
  std::optional<double> passes;                   // backward passes for one update
  std::optional<double> until;                    // the last step in which it was right
  std::optional<double> stranded;  // parameters of no module that the optimizer holds instead
  // Of an operator that gave other bits when it ran again.
  std::string device;
  std::optional<double> rank, elements;
  bool each_time = false;  // no two of its runs agreed
};

// What an operator was given at one element: in the training and in the reference. NaN and Inf are
// values as others.
struct ShadowOperand {
  double held = 0, reference = 0;
};

// A line that made something.
struct ShadowLine {
  std::string op, source;  // "aten.div.Tensor", "file:line"
};

// Where the error that a finding works on came in, earlier in the same step.
struct ShadowOrigin {
  std::string op, source, dtype;
  Word<Phase> phase;
  std::optional<double> error;  // relative L2 error of what it made; absent: Inf or NaN
};

// What brought a value that is not finite into the step.
struct ShadowCarrier {
  Word<CarrierKind> kind;        // none: not known
  std::string whose;             // "exp_avg of AdamW", "buffer running_var of BatchNorm1d"
  std::string at;                // "file:line" that made or loaded it
  std::optional<int64_t> onset;  // something was not finite at that step already
};

struct ShadowFinding {
  int64_t finding_id = 0, step = 0;  // step: of the first time
  std::optional<int64_t> last_step;
  int64_t repeats = 1;  // shadow steps in which it was seen
  Word<FindingKind> kind;
  Word<Severity> severity;
  Word<Phase> phase;
  std::optional<int64_t> layer_id;
  std::string op;      // "aten.sub.Tensor"
  std::string source;  // "file:line"; "" if not known
  std::string dtype, shape;
  std::optional<double> share;                // of the elements, 0 to 1
  std::optional<double> magnitude;            // largest finite one in the reference
  std::optional<double> error_in, error_out;  // relative L2 errors against the reference
  Word<Proof> proof;
  // CompleteFinding() reads these.
  std::string forward_op;  // backward: the operator that this is of; "" if not known or the same
  std::vector<ShadowOperand> operands;  // of the first element that is not finite; empty: not known
  std::vector<ShadowLine> inputs_from;  // lines of the step that led to what went in, nearest first
  // Backward: what went into the forward operator where its derivative is infinite (NaN: not
  // known).
  std::optional<ShadowOperand> derivative_at;
  std::vector<ShadowLine> meets;  // the line whose 0 an infinity is multiplied by; one or none
  bool was_bad_before = false;    // what is not finite was so before the step began
  ShadowCarrier carrier;          // what held it then
  std::optional<int64_t>
      since;  // the step that it was looked at first, where it takes several to tell
  // Values that came into the step in 16 bits decide it by a fraction of their last place.
  bool rounded_before = false;
  bool rounded_between = false;  // lost_change: of weights, between two steps of the optimizer
  bool lost_before =
      false;  // lost_change: more than rounding can lose here: what came in had lost it
  // Lines of the program from which the functions were called in which it happened, nearest first.
  std::vector<std::string> called_from;
  std::string home;  // the line that gave what is read or changed here its format; "": not known
  std::optional<ShadowOrigin> origin;  // absent: it made the error itself
  std::vector<ShadowReach> reach;
  std::optional<ShadowCure> cure;
  ShadowGrowth growth;
  ShadowRelation relation;

  std::vector<int64_t> ranks;  // of merged ranks, those that told it, ascending
  size_t part = 0;             // whose row this is: 0 the deciding rank's, i of others[i - 1]
};

struct ShadowFilter {
  StepRange steps;                                // seen at one of them, as far as rows tell
  std::optional<std::vector<int64_t>> layer_ids;  // sorted; absent: all, and those without a layer
};

struct ShadowFindings {
  std::vector<ShadowFinding> rows;  // in the order in which they are shown, worst first
  std::vector<std::string> notes;   // what limited the reading
};

// All that fit, without what CompleteFinding() reads; at most 20,000, which it says.
Result<ShadowFindings> ReadShadowFindings(const Source& source, const ShadowFilter& filter = {});
// Reads operands, origin, reach, cure, growth and relation of one finding.
Result<void> CompleteFinding(const Source& source, ShadowFinding& finding);
// True if `a` is shown before `b`: severity, then kind, then error.
bool ShownBefore(const ShadowFinding& a, const ShadowFinding& b);

// What an alert of a type SHADOW_… says of its finding (alert.detail).
struct ShadowAlert {
  std::optional<int64_t> finding_id;
  std::string op, source;
  Word<Proof> proof;
  std::optional<ShadowCure> cure;
};
bool IsShadowAlert(const Word<AlertType>& type);
ShadowAlert ParseShadowAlert(std::string_view detail);
// The finding of an alert that stands in `part` (AlertRow::part), complete; nullopt: no such row.
Result<std::optional<ShadowFinding>> FindShadowFinding(const Source& source, size_t part,
                                                       int64_t finding_id);

// How many of the things that there are were compared; several steps: of the step with the least.
struct Covered {
  int64_t compared = 0, of = 0;
  bool All() const { return of > 0 && compared >= of; }
};

// What a shadow step compared with FP64.
struct ShadowCoverage {
  Covered gradients;   // of parameters with a gradient that an optimizer was about to use
  Covered updates;     // of those parameters
  Covered passes;      // backward passes
  int64_t states = 0;  // tensors of an optimizer's or an average's state
  std::vector<std::string> left_out;  // parameters that moved and were not compared; raw names
  // Parameters whose gradients are sums that cancel out, by raw name: the part of their elements.
  // nullopt: an earlier monitor, which did not look.
  std::optional<std::map<std::string, double>> cancelled;
};

struct ShadowStep {
  int64_t step = 0;
  std::string why;                             // first | schedule | error | drift | asked | rerun
  std::optional<double> seconds;               // the whole step, with the shadow
  std::optional<double> plain_seconds;         // median of plain steps until then
  std::optional<int64_t> operators, compared;  // seen; results that were compared
  std::optional<int64_t> restarted, memory;
  std::optional<ShadowCoverage> covered;  // absent: not recorded
  bool eager = false;                     // what torch.compile has made ran without it
};

struct ShadowSteps {
  std::vector<ShadowStep> steps;        // ascending; of several ranks the slowest one's figures
  std::optional<double> seconds;        // of all together; absent: not recorded
  std::optional<double> extra_seconds;  // beyond what plain steps take
  std::vector<std::string> notes;
};
// At most 100,000 of a rank, which it says.
Result<ShadowSteps> ReadShadowSteps(const Source& source, const StepRange& range = {});

// One layer in one shadow step: how far it is from the reference, and what formats would do to it.
struct ShadowProfileRow {
  int64_t step = 0, layer_id = 0;
  int64_t phase = 0;  // 0 forward, 1 backward
  std::optional<int64_t> dtype, operators;
  std::optional<double> error, amplification, absmax, rms;
  std::optional<double> fp16, bf16, e4m3, e5m2;
  std::optional<double> fp16_overflow, fp16_underflow;
};

// Reads profiles step by step, of all ranks.
class ShadowProfile {
 public:
  // The source is borrowed.
  static Result<ShadowProfile> Open(const Source& source);

  // The first step at or after this one that has a profile; nullopt after the last.
  Result<std::optional<int64_t>> StepFrom(int64_t step);
  // All rows of a step, rank by rank, at most 200,000; layers by the Source's numbering. Of ranks
  // that lie in one database a row a layer and phase, with the largest figures.
  Result<std::vector<ShadowProfileRow>> At(int64_t step);

 private:
  struct Part {
    size_t place = 0;  // as ShadowFinding::part
    bool all = false;  // of all ranks, which lie in one database
    Statement step_from, rows;
  };
  explicit ShadowProfile(const Source& source) : source_(&source) {}

  const Source* source_;
  std::vector<Part> parts_;  // those that have the table
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SHADOW_H_
