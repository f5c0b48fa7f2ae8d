// The Recorder's view of a forward pass: who became non-finite first, and who only passed it on.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "monitor/core/alert_types.h"
#include "monitor/core/recorder.h"

namespace mpnanny {
namespace {

bool AnyNonFinite(std::span<const TensorView> views) {
  return std::any_of(views.begin(), views.end(),
                     [](const TensorView& view) { return HasNonFinite(view); });
}

TensorStats Together(std::span<const TensorView> views) {
  TensorStats all;
  for (const TensorView& view : views) Merge(all, ComputeStats(view));
  return all;
}

// An input beyond the first that holds -inf and nothing worse is a mask, not a failure.
bool IsUnclean(const TensorStats& stats, size_t index) {
  return stats.nan + stats.posinf > 0 || (index == 0 && stats.neginf > 0);
}

bool InputsUnclean(std::span<const TensorView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (HasNonFinite(inputs[i]) && IsUnclean(ComputeStats(inputs[i]), i)) return true;
  }
  return false;
}

std::string Counts(const TensorStats& stats) {
  std::string text;
  const auto add = [&](int64_t count, const char* what) {
    if (count == 0) return;
    text += text.empty() ? "" : " and ";
    text += (stats.partial ? "" : std::to_string(count) + " ") + what;
  };
  add(stats.nan, "NaN");
  if (stats.partial) {  // a norm does not tell the sign
    add(stats.posinf + stats.neginf, "Inf");
  } else {
    add(stats.posinf, "+Inf");
    add(stats.neginf, "-Inf");
  }
  return text + (stats.partial ? " among " : " of ") + std::to_string(stats.numel);
}

}  // namespace

bool Recorder::HasProducerBelow(const std::string& container) const {
  return std::any_of(findings_.begin(), findings_.end(), [&](const NonFinite& finding) {
    if (!finding.producer || !finding.layer) return false;
    const std::string& name = layers_.at(static_cast<size_t>(*finding.layer - 1)).name;
    return container.empty() || name.starts_with(container + ".");
  });
}

bool Recorder::Observe(int64_t layer_id, std::span<const TensorView> inputs,
                       std::span<const TensorView> outputs, Tickets tickets) {
  Layer& here = layer(layer_id);
  if (here.position < 0) {
    here.position = positions_++;
    writer_.Put(PositionRow{layer_id, here.position});
  }
  const int32_t call = here.calls;
  if (call < kSampledCalls) ++here.calls;
  for (const TensorView& output : outputs) {
    half_seen_ = half_seen_ || output.dtype == DType::kFloat16;
    bf16_seen_ = bf16_seen_ || output.dtype == DType::kBFloat16;
    fp8_seen_ =
        fp8_seen_ || output.dtype == DType::kFloat8E4M3 || output.dtype == DType::kFloat8E5M2;
  }
  bool nonfinite = false;
  if (sampling_ && here.leaf && call < kSampledCalls) {
    nonfinite = SampleCall(layer_id, call, inputs, outputs, tickets);
  } else {
    nonfinite = AnyNonFinite(outputs);
    if (sampling_ && !here.leaf && !nonfinite && !inputs.empty() && !outputs.empty())
      SampleResidual(layer_id, inputs[0], outputs[0]);
  }
  if (!nonfinite) {
    observed_ = true;
    if (here.leaf) last_clean_ = layer_id;
    return false;
  }
  if (here.leaf) {
    ++nonfinite_layers_;
    if (first_nonfinite_ < 0) first_nonfinite_ = layer_id;
  }
  const bool unclean = InputsUnclean(inputs);
  if (!here.leaf) {
    // A container that got clean inputs made it in its own forward, unless one of its modules is
    // known to have.
    if (!unclean) return !HasProducerBelow(here.name);
    return here.name.empty();  // the model itself: its input is the data
  }
  if (!unclean) return true;
  if (findings_.empty()) return true;
  return !nan_found_ && Together(outputs).nan > 0;  // the first to turn an infinity into NaN
}

void Recorder::Explain(int64_t layer_id, std::span<const TensorView> inputs,
                       std::span<const TensorView> outputs,
                       std::span<const TensorView> parameters) {
  const Layer& here = layer(layer_id);
  const TensorStats in = Together(inputs), out = Together(outputs), own = Together(parameters);
  const bool unclean = InputsUnclean(inputs);
  const std::string buffers = std::exchange(broken_buffers_, {});
  const bool first = !observed_;
  observed_ = true;
  const int32_t slot = (here.calls - 1) * 256;
  if (!sampling_ ||
      !here.leaf) {  // the numbers of the place where it broke are kept whatever the sampling says
    for (size_t i = 0; i < outputs.size(); ++i) {
      AddSample(layer_id, TensorKind::kActivation, slot + static_cast<int32_t>(i), outputs[i],
                Measure(outputs[i], TensorKind::kActivation), {});
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    AddSample(layer_id, TensorKind::kInput, slot + static_cast<int32_t>(i), inputs[i],
              Measure(inputs[i], TensorKind::kInput), {});
  }
  const std::string name = here.name.empty() ? "the model" : here.name;
  const std::string dtype(outputs.empty() ? "unknown" : DTypeName(outputs[0].dtype));
  NonFinite finding;
  finding.layer = layer_id;
  finding.phase = "forward";
  finding.stats = out;
  if (unclean && (first || here.name.empty())) {
    finding.layer.reset();
    finding.phase = "data";
    finding.kind = TensorKind::kInput;
    finding.stats = in;
    finding.producer = true;
    finding.message =
        "The batch is not finite: " + Counts(in) + " elements that enter " + name + ".";
  } else if (unclean) {
    finding.message = name + ": " + Counts(out) + " output elements in " + dtype +
                      "; it only carries on, its inputs hold " + Counts(in) + ".";
    if (findings_.empty() && last_clean_ > 0) {
      finding.message += " Born outside modules, after " + layer(last_clean_).name + ".";
    }
  } else if (own.nonfinite() > 0) {
    finding.phase = "optimizer";
    finding.kind = TensorKind::kWeight;
    finding.stats = own;
    finding.producer = true;
    finding.message = name + ": its weights are not finite (" + Counts(own) +
                      ") before this forward pass; the optimizer " +
                      "step before it, or a loaded checkpoint, wrote them.";
  } else if (!buffers.empty()) {
    finding.producer = true;
    finding.message = name + ": " + Counts(out) + " output elements in " + dtype +
                      "; its inputs and weights are finite, its buffers are not: " + buffers +
                      ". What wrote them was an earlier step, or a loaded checkpoint.";
  } else {
    finding.producer = true;
    finding.message = name + ": " + Counts(out) + " output elements in " + dtype;
    if (out.finite > 0) finding.message += Message(" (largest finite %.5g)", out.absmax);
    finding.message += in.finite > 0 ? Message("; its inputs are finite, up to %.5g.", in.absmax)
                                     : "; its inputs are finite.";
    const bool half = !outputs.empty() && outputs[0].dtype == DType::kFloat16;
    if (half && out.posinf + out.neginf > 0)
      finding.message += " FP16 holds 65504 at most: it overflowed here.";
    if (!here.leaf)
      finding.message += " None of its modules made it: it is in the code of its own forward.";
  }
  AddFinding(std::move(finding));
}

void Recorder::AddFinding(NonFinite finding) {
  nan_found_ = nan_found_ || finding.stats.nan > 0;
  inf_found_ = inf_found_ || finding.stats.posinf + finding.stats.neginf > 0;
  if (findings_.size() < kStepFindings) findings_.push_back(std::move(finding));
}

void Recorder::RaiseFindings(const StepEnd& end, Alerts& out) {
  // -inf alone, with a finite loss and finite gradients, is a mask that a module made. Gradients
  // for which GradScaler skips the step are no sign against it: RaiseGradients() judges them.
  const bool harmless =
      (!end.loss || std::isfinite(*end.loss)) && (bad_gradients_.empty() || end.skipped);
  for (const NonFinite& finding : findings_) {
    const TensorStats& stats = finding.stats;
    if (harmless && stats.nan + stats.posinf == 0) continue;
    const auto raise = [&](const char* type, int64_t count) {
      AlertRow& alert = out.emplace_back(MakeAlert(type, step_, finding.phase, finding.message));
      alert.layer = finding.layer;
      alert.kind = finding.kind;
      alert.value = static_cast<double>(count);
      alert.threshold = 0;
      alert.producer = finding.producer ? 1 : 0;
    };
    if (const int64_t infinite = stats.posinf + stats.neginf; infinite > 0) raise("INF", infinite);
    if (stats.nan > 0) raise("NAN", stats.nan);
  }
}

void Recorder::RaiseGradients(const StepEnd& end, bool explained, Alerts& out) {
  if (bad_gradients_.empty() || explained || (end.loss && !std::isfinite(*end.loss))) return;
  // GradScaler skips such a step and lowers the scale; that is how it works. It stays no accident
  // once the scale is so low that the scale cannot be the reason.
  if (end.skipped && end.scale &&
      !(scale_conditions_.skipped_in_a_row() >= kDeclineFalls &&
        *end.scale < scale_conditions_.low_bound())) {
    return;
  }
  // The backward pass runs from the last layer to the first: the last one that is not finite comes
  // first.
  const BadGradient& first = bad_gradients_.back();
  const bool later_is_finite = last_good_gradient_ > first.order + 1;
  const bool nan = first.stats.nan > 0;
  AlertRow& alert = out.emplace_back(MakeAlert(
      nan ? "NAN" : "INF", step_, "backward",
      layer(first.layer).name + ": its gradient has " + Counts(first.stats) +
          " elements; loss and forward pass are finite. " + std::to_string(bad_gradients_.size()) +
          " of " + std::to_string(gradients_read_) + " gradients are not finite."));
  alert.layer = first.layer;
  alert.kind = TensorKind::kGradient;
  alert.value = static_cast<double>(first.stats.nonfinite());
  alert.threshold = 0;
  if (later_is_finite) alert.producer = 1;
}

}  // namespace mpnanny
