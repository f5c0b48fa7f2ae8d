#include "engines/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/runs/show.h"
#include "numerics/format.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kSamplesWithoutFlags = 512;

Curve CurveOf(const Course& course, double Point::*a, double Point::*b) {
  Curve curve;
  for (const Point& point : course.points) {
    curve.steps.push_back(point.step);
    curve.a.push_back(point.*a);
    curve.b.push_back(point.*b);
  }
  return curve;
}

// The coarser of the formats that the runs say they compute in; absent if neither says any.
std::optional<Format> SaidFormat(const runs::Run& a, const runs::Run& b) {
  std::optional<Format> coarsest;
  for (const runs::Run* run : {&a, &b}) {
    std::optional<Format> format = FormatFromName(run->precision);
    if (run->precision == Precision::kFp8) format = Format::kE4M3;
    if (format == Format::kFp32 && EnvironmentFlag(*run, "tf32_matmul")) format = Format::kTf32;
    if (!format) continue;
    if (!coarsest || Info(*format).epsilon > Info(*coarsest).epsilon) coarsest = format;
  }
  return coarsest;
}

// Recordings that flag no step as sampled (other writers' databases) are asked for their samples.
Result<void> FindSamples(const runs::Source& a, const runs::Source& b, const Options& options,
                         Course& course) {
  if (!course.samples.empty() || course.common_steps == 0) return {};
  if (course.a.sampled_steps > 0 && course.b.sampled_steps > 0) return {};
  MPN_TRY_ASSIGN(auto steps_a, runs::LastSampledSteps(a, options.steps, kSamplesWithoutFlags));
  MPN_TRY_ASSIGN(auto steps_b, runs::LastSampledSteps(b, options.steps, kSamplesWithoutFlags));
  std::vector<int64_t> both;
  std::set_intersection(steps_a.begin(), steps_a.end(), steps_b.begin(), steps_b.end(),
                        std::back_inserter(both));
  for (const int64_t step : both) course.samples.push_back({step});
  return {};
}

FirstDifference DifferenceOf(const CurveParting& parting, const char* metric,
                             const Course& course) {
  return {parting.step,
          "",
          metric,
          parting.a,
          parting.b,
          parting.limit,
          static_cast<int64_t>(parting.mean_of) * course.steps_a_point,
          false,
          std::nullopt};
}

FirstDifference DifferenceOf(const CurveSpike& spike, const char* metric, const Course& course) {
  return {spike.step,           "",   metric,      spike.a, spike.b, spike.limit,
          course.steps_a_point, true, std::nullopt};
}

// The earliest of all; at one step a tensor says more than the loss that it led to.
std::optional<FirstDifference> Earliest(const Comparison& c) {
  std::optional<FirstDifference> first;
  const auto offer = [&](const FirstDifference& other) {
    if (!first || other.step < first->step) first = other;
  };
  if (c.tensors.first) {
    const TensorParting& t = *c.tensors.first;
    const double limit = IsShare(t.metric) ? t.limit : t.limit * std::fabs(t.a);
    offer({t.step, c.layers.common[t.key.layer].name,
           runs::KindName(t.key.kind) + " " + MetricName(t.metric), t.a, t.b, limit, 1, false,
           c.tensors.last_together});
  }
  if (c.course.loss_one_sided) {
    const OneSided& o = *c.course.loss_one_sided;
    offer({o.step, "", "loss", o.a, o.b, 0, 1, false, std::nullopt});
  }
  if (c.loss_parting) offer(DifferenceOf(*c.loss_parting, "loss", c.course));
  if (c.norm_parting) offer(DifferenceOf(*c.norm_parting, "grad_norm", c.course));
  if (c.scale_parting) offer(DifferenceOf(*c.scale_parting, "loss_scale", c.course));
  if (c.loss_spike) offer(DifferenceOf(*c.loss_spike, "loss", c.course));
  if (c.norm_spike) offer(DifferenceOf(*c.norm_spike, "grad_norm", c.course));
  return first;
}

// Whether activations part at the step at which the losses begin apart.
bool HasForwardParting(const Comparison& c) {
  return std::any_of(
      c.tensors.partings.begin(), c.tensors.partings.end(), [&](const TensorParting& parting) {
        return parting.key.kind == runs::kActivation && parting.step <= c.loss_scales->step;
      });
}

void TellLimits(const runs::Source& a, const runs::Source& b, Comparison& c) {
  const TensorComparison& t = c.tensors;
  std::vector<std::string>& limits = c.limits;
  if (c.course.common_steps > 0 && t.common_samples == 0) {
    const bool none_a = c.course.a.sampled_steps == 0, none_b = c.course.b.sampled_steps == 0;
    limits.push_back(
        none_a || none_b
            ? std::string(none_a && none_b ? "Neither run has"
                          : none_a         ? "a has no"
                                           : "b has no") +
                  " statistics of tensors: layers were not compared. The monitor records them."
            : "No step was sampled in both runs: layers were not compared. Give both the same "
              "trace_interval.");
  } else if (t.samples_read < t.common_samples) {
    limits.push_back("Layers were compared at " + std::to_string(t.samples_read) + " of " +
                     std::to_string(t.common_samples) +
                     " steps that both runs sampled; a difference that came and went between them "
                     "is not seen.");
  } else if (t.common_samples == 1) {
    limits.push_back(
        "Layers were compared at one step: how much they vary by themselves is not known.");
  }
  if (c.course.samples_thinned) limits.push_back("Not all common samples were candidates.");
  if (t.dropped > 0) {
    limits.push_back("Tensors of a sample beyond 20,000 were left out.");
  }
  if (c.layers.count_only_a + c.layers.count_only_b > 0) {
    limits.push_back(runs::Count(c.layers.count_only_a, "layer") + " only in a and " +
                     std::to_string(c.layers.count_only_b) + " only in b were not compared.");
  }
  if (c.layers.prefixes) {
    const auto under = [](const std::string& prefix) {
      return prefix.empty() ? std::string("the top") : "`" + runs::Name(prefix) + "`";
    };
    limits.push_back("One model is named otherwise in the two runs: layers under " +
                     under(c.layers.prefixes->a) + " in a and under " +
                     under(c.layers.prefixes->b) + " in b were compared, as kinds and sizes fit.");
  }
  if (c.course.steps_a_point > 1) {
    limits.push_back("Steps were averaged by " + std::to_string(c.course.steps_a_point) +
                     "; the steps told of loss and gradient norm are exact to that.");
  }
  if (!c.format_known) {
    limits.push_back("Neither run says its precision: rounding was judged as bf16's.");
  }
  if (t.same_weights == false) {
    limits.push_back(
        "The runs start from other weights (another seed or checkpoint): they are compared by "
        "level, and a layer only against how far the others lie apart.");
  } else if (t.same_input == false) {
    limits.push_back(
        "The first module was given other data in the two runs (another seed or order).");
  }
  if (t.only_rounding > 0) {
    limits.push_back(runs::Count(t.only_rounding, "parameter") +
                     " whose gradient is nothing but rounding (a bias before a norm) left out.");
  }
  if (t.excused > 0) {
    limits.push_back(runs::Count(t.excused, "non-finite gradient") +
                     " at steps that the loss scaler skipped did not count.");
  }
  for (const std::string& note : a.notes) limits.push_back("a: " + note);
  for (const std::string& note : b.notes) limits.push_back("b: " + note);
}

}  // namespace

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAcceptable:
      return "acceptable";
    case Verdict::kNotAcceptable:
      return "not_acceptable";
    case Verdict::kUndecided:
      return "undecided";
  }
  return "undecided";
}

Result<Comparison> Compare(const runs::Source& a, const runs::Source& b, const Options& options,
                           const Diagnoses& diagnoses) {
  Comparison c;
  for (const auto& [source, into] :
       {std::pair(&a, &c.evaluations_a), std::pair(&b, &c.evaluations_b)}) {
    auto evaluations = runs::ReadEvaluations(*source);
    if (!evaluations) return evaluations.error();
    *into = *std::move(evaluations);
  }
  auto course = ReadCourse(a, b, options.steps);
  if (!course) return course.error();
  c.course = *std::move(course);
  auto layers = PairLayers(a, b);
  if (!layers) return layers.error();
  c.layers = *std::move(layers);
  MPN_TRY(FindSamples(a, b, options, c.course));

  const std::optional<Format> said = SaidFormat(a.run, b.run);
  const double half_ulp = Info(said.value_or(Format::kBf16)).epsilon / 2;
  const bool at_start = !c.course.samples.empty() && c.course.first_common &&
                        c.course.samples.front().step == *c.course.first_common &&
                        c.course.a.first_step == c.course.b.first_step;
  Tensors tensors(a, b, c.layers);
  auto compared = CompareTensors(tensors, c.layers, c.course.samples, at_start, half_ulp);
  if (!compared) return compared.error();
  c.tensors = *std::move(compared);
  std::optional<Format> format = tensors.coarsest();
  if (!format || (said && Info(*said).epsilon > Info(*format).epsilon)) format = said;
  c.format_known = format.has_value();
  c.format = std::string(Info(format.value_or(Format::kBf16)).name);

  const double rounding = RoundingLimit(Info(format.value_or(Format::kBf16)).epsilon / 2,
                                        static_cast<double>(c.layers.depth));
  c.window = options.window > 0 ? options.window : DefaultWindow(c.course.points.size());
  if (options.window > 0) {
    c.window = std::max<size_t>(1, c.window / static_cast<size_t>(c.course.steps_a_point));
  }
  const Curve loss = CurveOf(c.course, &Point::loss_a, &Point::loss_b);
  const Curve norm = CurveOf(c.course, &Point::norm_a, &Point::norm_b);
  c.loss_parting = FindParting(loss, c.window, rounding);
  c.norm_parting = FindParting(norm, c.window, std::sqrt(2.0) * rounding);
  c.scale_parting = FindScaleParting(CurveOf(c.course, &Point::scale_a, &Point::scale_b), c.window);
  c.loss_spike = FindSpike(loss, rounding);
  c.norm_spike = FindSpike(norm, std::sqrt(2.0) * rounding);
  c.norm_factor = FindNormFactor(c.course.points, rounding);
  c.loss_ending = CompareEndings(loss, c.window);
  c.norm_ending = CompareEndings(norm, c.window);
  c.loss_scales = FindScaleApart(c.course);
  // Values of the forward pass that part at once are a cause of their own.
  if (c.loss_scales && HasForwardParting(c)) c.loss_scales.reset();
  c.first = Earliest(c);
  MPN_TRY_ASSIGN(c.printed, FindFirstNumber(a, b, options.steps));
  c.settings = DifferentSettings(a, b, c.course, c.layers);
  JudgeComparison(a.run, b.run, options, diagnoses, c);
  TellLimits(a, b, c);
  return c;
}

}  // namespace mpnanny::comparison
