#include "monitor/core/forward_observer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/layer_word.h"
#include "monitor/core/bad_batch.h"
#include "monitor/core/json_text.h"

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

}  // namespace

void ForwardObserver::BeginStep() {
  calls_.Clear();
  observed_ = false;
  first_nonfinite_ = -1;
  nonfinite_layers_ = last_clean_ = 0;
}

bool ForwardObserver::Observe(int64_t layer_id, std::span<const TensorView> inputs,
                              std::span<const TensorView> outputs, const Tickets& tickets) {
  Layer& here = layers_.at(layer_id);
  if (here.position < 0) {
    here.position = positions_++;
    file_.Put(PositionRow{layer_id, here.position});
  }
  int32_t& calls = calls_[layer_id];
  const int32_t call = calls;
  if (call < kSampledCalls) ++calls;
  for (const TensorView& output : outputs) precision_.See(output.dtype);
  bool nonfinite = false;
  if (schedule_.sampling() && here.leaf && call < kSampledCalls) {
    nonfinite = call_samples_.Sample(layer_id, call, inputs, outputs, tickets);
  } else {
    nonfinite = AnyNonFinite(outputs);
    if (schedule_.sampling() && !here.leaf && !nonfinite && !inputs.empty() && !outputs.empty())
      call_samples_.SampleResidual(layer_id, inputs[0], outputs[0]);
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
    if (!unclean) return !findings_.HasProducerBelow(here.name);
    return here.name.empty();  // the model itself: its input is the data
  }
  if (!unclean) return true;
  if (findings_.empty()) return true;
  return !findings_.nan_found() &&
         Together(outputs).nan > 0;  // the first to turn an infinity into NaN
}

void ForwardObserver::Explain(int64_t layer_id, std::span<const TensorView> inputs,
                              std::span<const TensorView> outputs,
                              std::span<const TensorView> parameters) {
  const Layer& here = layers_.at(layer_id);
  const TensorStats in = Together(inputs), out = Together(outputs), own = Together(parameters);
  const bool unclean = InputsUnclean(inputs);
  const std::string buffers = std::exchange(broken_buffers_, {});
  const std::string buffers_json = std::exchange(broken_buffers_json_, {});
  const bool first = !observed_;
  observed_ = true;
  const int32_t slot = (calls_.Get(layer_id) - 1) * 256;
  if (!schedule_.sampling() ||
      !here.leaf) {  // the numbers of the place where it broke are kept whatever the sampling says
    for (size_t i = 0; i < outputs.size(); ++i) {
      samples_.Add(layer_id, TensorKind::kActivation, slot + static_cast<int32_t>(i), outputs[i],
                   samples_.Measure(outputs[i], TensorKind::kActivation), {});
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    samples_.Add(layer_id, TensorKind::kInput, slot + static_cast<int32_t>(i), inputs[i],
                 samples_.Measure(inputs[i], TensorKind::kInput), {});
  }
  const std::string word = here.name.empty() ? "the model" : LayerWord(here.name);
  const std::string dtype(outputs.empty() ? "unknown" : DTypeName(outputs[0].dtype));
  NonFiniteFinding finding;
  finding.layer = layer_id;
  finding.phase = Phase::kForward;
  finding.stats = out;
  JsonObject detail;
  const auto tell = [&](const char* where, const TensorStats& stats) {
    detail.Text("where", where);
    AddCounts(stats, detail);
    detail.Text("inputs", unclean ? "not_finite" : "finite");
    if (in.finite > 0) detail.Number("largest_input", in.absmax);
    if (!outputs.empty()) detail.Text("dtype", dtype);
  };
  if (unclean && (first || here.name.empty())) {
    finding.layer.reset();
    finding.phase = Phase::kData;
    finding.kind = TensorKind::kInput;
    finding.stats = in;
    finding.producer = true;
    finding.message =
        "The batch is not finite: " + CountsOf(in) + " elements that enter " + word + ".";
    tell("batch", in);
    detail.Json("batch", BadBatchJson(inputs, calls_.Get(layer_id)));
  } else if (unclean) {
    finding.message = word + ": " + CountsOf(out) + " output elements in " + dtype +
                      "; it only carries on, its inputs hold " + CountsOf(in) + ".";
    tell("carried", out);
    if (findings_.empty() && last_clean_ > 0) {
      finding.message +=
          " Made outside modules, after " + LayerWord(layers_.at(last_clean_).name) + ".";
      detail.Text("after", layers_.at(last_clean_).name);
    }
  } else if (own.nonfinite() > 0) {
    finding.phase = Phase::kOptimizer;
    finding.kind = TensorKind::kWeight;
    finding.stats = own;
    finding.producer = true;
    finding.message = word + ": its weights are not finite (" + CountsOf(own) +
                      ") before this forward pass; the optimizer " +
                      "step before it, or a loaded checkpoint, wrote them.";
    tell("weights_before", own);
  } else if (!buffers.empty()) {
    finding.producer = true;
    finding.message = word + ": " + CountsOf(out) + " output elements in " + dtype +
                      "; its inputs and weights are finite, its buffers are not: " + buffers +
                      ". What wrote them was an earlier step, or a loaded checkpoint.";
    tell("buffers", out);
    if (!buffers_json.empty()) detail.Json("buffers", buffers_json);
  } else {
    finding.producer = true;
    finding.message = word + ": " + CountsOf(out) + " output elements in " + dtype;
    if (out.finite > 0) finding.message += Message(" (largest finite %.5g)", out.absmax);
    finding.message += in.finite > 0 ? Message("; its inputs are finite, up to %.5g.", in.absmax)
                                     : "; its inputs are finite.";
    const bool half = !outputs.empty() && outputs[0].dtype == DType::kFloat16;
    if (half && out.posinf + out.neginf > 0)
      finding.message += " FP16 holds 65504 at most: it overflowed here.";
    if (!here.leaf)
      finding.message += " None of its modules made it: it is in the code of its own forward.";
    tell(here.leaf ? "module" : "own_code", out);
    if (out.finite > 0) detail.Number("largest_output", out.absmax);
  }
  finding.detail = detail.Take();
  findings_.Add(std::move(finding));
}

}  // namespace mpnanny
