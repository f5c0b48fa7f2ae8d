// Two runs compared: where they part, what each costs, and whether the second may be used in the
// first one's place.
//
// `a` is the reference. Plain values; free function.
#ifndef MPNANNY_ENGINES_COMPARISON_COMPARISON_H_
#define MPNANNY_ENGINES_COMPARISON_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/comparison/configuration.h"
#include "engines/comparison/course.h"
#include "engines/comparison/curve.h"
#include "engines/comparison/first_number.h"
#include "engines/comparison/gradient_path.h"
#include "engines/comparison/mend.h"
#include "engines/comparison/spike.h"
#include "engines/comparison/tensor_partings.h"
#include "engines/comparison/tensors.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/evaluations.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::comparison {

enum class Judged { kLoss, kGradNorm, kGiven };

struct Options {
  runs::StepRange steps;
  size_t window = 0;  // steps of a mean; 0: a twentieth of the common ones
  Judged metric = Judged::kLoss;
  std::optional<double> given_a, given_b;  // with kGiven: final values that were measured elsewhere
  bool higher_is_better = false;
  // Of the reference: up to the first b is as good, beyond the second it is not.
  double acceptable = 0.01, not_acceptable = 0.05;
};

enum class Verdict { kAcceptable, kNotAcceptable, kUndecided };
const char* VerdictName(Verdict verdict);

// The figure that decides, at the end of what both runs have.
struct Final {
  std::string metric;
  double a = 0, b = 0;
  double worse = 0;  // by how much b is worse, of the reference; negative: better
  // False where the two are on different scales: `worse` tells nothing then.
  bool comparable = true;
  double uncertainty = 0;                        // of `worse`: two standard errors
  std::optional<int64_t> first_step, last_step;  // of the window
};

struct FirstDifference {
  int64_t step = 0;
  std::string layer;   // raw; "" for a figure of the whole step
  std::string metric;  // "loss", "activation rms"
  double a = 0, b = 0;
  double limit = 0;     // by how much noise explains that they differ; in the metric's unit
  int64_t mean_of = 1;  // steps that a and b are means of, from `step` on
  bool spike = false;   // the curves are together before and after
  std::optional<int64_t> together_at;  // last step before it at which it was looked at
};

struct Comparison {
  Course course;
  LayerPairs layers;
  TensorComparison tensors;
  size_t window = 0;
  std::string format;  // that rounding was judged by, "bf16"
  bool format_known = true;
  std::optional<CurveParting> loss_parting, norm_parting, scale_parting;
  std::optional<CurveSpike> loss_spike, norm_spike;
  std::optional<NormFactor> norm_factor;
  std::optional<Ending> loss_ending, norm_ending;
  std::optional<ScaleApart> loss_scales;
  std::optional<Mend> mend;
  std::optional<Final> final_metric;
  std::optional<FirstDifference> first;
  FirstNumber printed;  // of two logs: which printed number parts first
  std::vector<Setting> settings;
  runs::Evaluations evaluations_a, evaluations_b;  // of logs

  Verdict verdict = Verdict::kUndecided;
  // Of what there is, while one of the runs still goes on; the same as `verdict` otherwise.
  Verdict so_far = Verdict::kUndecided;
  std::vector<std::string> reasons;  // most important first
  std::vector<std::string> limits;   // what the comparison cannot see
};

// What diagnose_run says of each run alone; empty where nobody was asked.
struct Diagnoses {
  RunHealth a, b;
};

Result<Comparison> Compare(const runs::Source& a, const runs::Source& b, const Options& options,
                           const Diagnoses& diagnoses = {});

// Fills mend, final_metric, verdict, so_far and reasons of a comparison of which the rest is there.
void JudgeComparison(const runs::Run& a, const runs::Run& b, const Options& options,
                     const Diagnoses& diagnoses, Comparison& comparison);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_COMPARISON_H_
