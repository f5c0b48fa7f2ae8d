#include "engines/mismatch/log_figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/text.h"
#include "engines/mismatch/judge.h"
#include "engines/runs/named_figures.h"

namespace mpnanny::mismatch {
namespace {

enum class Meaning {
  kMeanAbs,   // mean |d|
  kK3,        // mean(exp(d) − 1 − d), or another estimate that is never negative
  kK1,        // mean(−d)
  kMeanProb,  // mean |Δp|
  kMeanExp,   // mean exp(|d|)
};

struct Known {
  std::string_view name;  // the end of the log's name, in lower case
  Meaning meaning;
};

// The most telling first: of several that a log prints the first is read.
constexpr Known kKnown[] = {
    {"sampling_logp_difference/mean", Meaning::kMeanAbs},         // TRL
    {"train_rollout_logprob_abs_diff", Meaning::kMeanAbs},        // slime
    {"vllm_vs_local_logprob_diff_mean", Meaning::kMeanAbs},       // open-instruct
    {"rollout_train_logprobs_abs_diff_mean", Meaning::kMeanAbs},  // SkyRL
    {"rollout_logprob_abs_diff", Meaning::kMeanAbs},              // RLinf
    {"rollout_corr/k3_kl", Meaning::kK3},                         // verl
    {"train_rollout_k3_kl", Meaning::kK3},                        //
    {"mismatch_k3_kl", Meaning::kK3},                             //
    {"gen_kl_error", Meaning::kK3},                               // NeMo RL
    {"generation kl error", Meaning::kK3},                        // the same on its console
    {"token_mult_prob_error", Meaning::kMeanExp},                 //
    {"rollout_corr/kl", Meaning::kK1},                            // verl
    {"vllm_kl", Meaning::kK1},                                    // OpenRLHF
    {"train_rollout_kl", Meaning::kK1},                           // slime
    {"mismatch_kl", Meaning::kK1},                                // prime-rl
    {"kl_sample_train_v1", Meaning::kK1},                         // Tinker
    {"rollout_probs_diff_mean", Meaning::kMeanProb},              // verl
};

// What a log shows is held against what published runs print between engines in 16 bits: k3 of
// 0.001 to 0.002, mean |d| of 0.01 to 0.03 (judge.h). An rms of 0.1, which is k3 of 0.005 and a
// mean |d| of 0.08, is more than they have.
constexpr double kRms16 = 0.1;
// |Δp| is about half of |d| for tokens whose p is not near 1.
constexpr double kOfProb = 2;
// The rms of d for a mean of |d|, of errors that are spread as a normal distribution is.
const double kOfMean = std::sqrt(1.5707963267948966);

double RmsOf(Meaning meaning, double value) {
  switch (meaning) {
    case Meaning::kMeanAbs:
      return kOfMean * std::fabs(value);
    case Meaning::kMeanProb:
      return kOfMean * kOfProb * std::fabs(value);
    case Meaning::kMeanExp:  // to the first order
      return kOfMean * std::fabs(value - 1);
    default:  // d²/2, to the second order
      return std::sqrt(2 * std::fabs(value));
  }
}

}  // namespace

Result<Calls> ReadLogFigures(const runs::Source& source) {
  MPN_TRY_ASSIGN(const auto names, runs::ReadFigureNames(source));
  for (const Known& known : kKnown) {
    for (const auto& name : names) {
      const std::string lower = LowerCase(name.name);
      if (!lower.ends_with(known.name)) continue;
      const size_t before = lower.size() - known.name.size();
      if (before > 0 && lower[before - 1] != '/' && lower[before - 1] != '.') continue;
      MPN_TRY_ASSIGN(const auto values, runs::ReadFigure(source, name.name));
      Calls found;
      for (const auto& [step, value] : values) {
        Call call;
        call.step = step;
        call.log_name = name.name;
        call.log_value = value;
        call.figures.tokens = 1;
        call.figures.exposure = kRms16 / kLogitError16;
        if (std::isfinite(value)) {
          call.figures.rms = RmsOf(known.meaning, value);
          if (known.meaning == Meaning::kK3) call.figures.k3 = value;
          if (known.meaning == Meaning::kK1) call.figures.mean = -value;
          if (known.meaning != Meaning::kK3)
            call.figures.k3 = call.figures.rms * call.figures.rms / 2;
        } else {
          call.figures.bad_trainer = 1;
        }
        found.calls.push_back(std::move(call));
      }
      if (found.calls.empty()) continue;
      found.notes.push_back(
          "A log shows how large the mismatch is and how it goes, and no tokens: which of them, "
          "and "
          "so most shapes, cannot be told. Record mpnanny.log_mismatch for that.");
      return found;
    }
  }
  return Calls();
}

}  // namespace mpnanny::mismatch
