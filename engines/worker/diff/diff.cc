#include "engines/worker/diff/diff.h"

#include <chrono>

#include "engines/worker/diff/answer.h"
#include "engines/worker/diff/measured.h"
#include "engines/worker/diff/trials.h"
#include "engines/worker/diff/verdict.h"

namespace mpnanny::worker {
namespace {

constexpr std::chrono::seconds kMostForTrials{15};

c10::ScalarType LowOf(const std::string& dtype) {
  if (dtype == "bf16") return c10::ScalarType::BFloat16;
  if (dtype == "fp16") return c10::ScalarType::Half;
  throw ModelProblem("'" + dtype + "' is no precision for a model that has left Python.",
                     "Known are bf16 and fp16; FP8 is simulated for models in Python.");
}

}  // namespace

Json Diff(const Program& program, const std::vector<Input>& inputs, const DiffOptions& options,
          const std::function<void(double, const std::string&)>& say) {
  const std::vector<IValue> values = Bound(program, inputs);
  const c10::ScalarType low_type = LowOf(options.dtype);
  say(0.05, "in FP32");
  const Measured full = Measure(program, values, CastPolicy::Full());
  if (full.raised) throw *full.raised;
  say(0.4, "in " + options.dtype);
  const CastPolicy precision = CastPolicyOf(options.policy, low_type);
  Measured low = Measure(program, values, precision);
  say(0.7, "what FP32 cures");
  Trials trials(program, values, precision, *low.tape, Trials::Clock::now() + kMostForTrials);
  const Verdict verdict(full, low, trials, {options.rel_warn, options.rel_error});
  return AnswerOf(program, inputs, options, full, low, verdict, trials);
}

}  // namespace mpnanny::worker
