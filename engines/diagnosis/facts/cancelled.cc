#include "engines/diagnosis/facts/cancelled.h"

#include <algorithm>
#include <cmath>

#include "engines/runs/samples.h"

namespace mpnanny::diagnosis {
namespace {

// Of the size that a sum of so many terms has by accident, what FP16 leaves of one that cancels
// out: some half ulps.
constexpr double kOfSum = 4 * 0x1p-11;

// How large the sum of the gradients of the module's output is by accident, an element of the
// parameter; nullopt where they were not seen, or are none that it can be summed from.
std::optional<double> UsualSum(const Facts& facts, const std::string& module,
                               const Measured& gradient) {
  double squares = 0;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kActivationGradient || series.layer != module) continue;
    const Measured* output = series.At(gradient.step);
    if (!output) continue;
    if (!output->rms || std::fmod(output->numel, gradient.numel) != 0) return std::nullopt;
    squares += output->numel * *output->rms * *output->rms;
  }
  if (squares == 0) return std::nullopt;
  return std::sqrt(squares / gradient.numel);
}

// Whether another parameter of the module, of which this one could be a row, has a gradient that
// lives: their gradients are made of the same output's.
bool HasLargerBeside(const Facts& facts, const Series& gradient) {
  const double numel = gradient.last().numel;
  return std::any_of(
      facts.profile.series.begin(), facts.profile.series.end(), [&](const Series& other) {
        return other.kind == runs::kGradient && other.Module() == gradient.Module() &&
               other.last().numel > numel && std::fmod(other.last().numel, numel) == 0 &&
               other.last().absmax.value_or(0) > 0;
      });
}

}  // namespace

std::optional<double> MeasuredToCancel(const ShadowEvidence& measured, const std::string& layer) {
  std::optional<double> least;
  bool looked = false;
  for (const runs::ShadowStep& step : measured.steps) {
    if (!step.covered || !step.covered->cancelled || step.covered->gradients.compared == 0)
      continue;
    looked = true;
    const auto found = step.covered->cancelled->find(layer);
    if (found == step.covered->cancelled->end()) continue;
    least = std::min(least.value_or(1), found->second);
  }
  return looked ? std::optional(least.value_or(0)) : std::nullopt;
}

double CancelledShare(const Facts& facts, const Series& gradient) {
  if (gradient.kind != runs::kGradient || gradient.points.empty()) return 0;
  if (const auto share = MeasuredToCancel(facts.measured, gradient.layer)) return *share;
  const std::string module = gradient.Module();
  if (module.empty() || !HasLargerBeside(facts, gradient)) return 0;
  bool known = false;
  for (const Measured& point : gradient.points) {
    if (point.numel < 1) return 0;
    const auto usual = UsualSum(facts, module, point);
    if (!usual) continue;
    known = true;
    if (!point.rms || *point.rms > kOfSum * *usual) return 0;
  }
  return known ? 1 : 0;
}

}  // namespace mpnanny::diagnosis
