#include "tools/choose_precision/recorded.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "engines/runs/samples.h"
#include "engines/runs/spread.h"
#include "engines/runs/step_reader.h"

namespace mpnanny::choose_precision {
namespace {

using runs::TensorRow;

// An autocast run has FP32 outputs beside its 16-bit ones (norms, softmax, losses).
constexpr double kShareOfLowOutputs = 0.1;

void Raise(std::optional<double>& most, const std::optional<double>& value) {
  if (value && (!most || *value > *most)) most = value;
}

class Reading {
 public:
  explicit Reading(const runs::Source& source) : source_(source), layers_(source) {}

  Result<Recorded> Run() {
    recorded_.notes = source_.notes;
    MPN_TRY(Steps());
    if (!source_.format.empty()) return std::move(recorded_);  // a log has steps only
    for (auto part : {&Reading::Samples, &Reading::Profiles, &Reading::Findings}) {
      MPN_TRY((this->*part)());
    }
    for (auto& [id, layer] : found_) {
      MPN_TRY_ASSIGN(auto named, layers_.Find(id));
      layer.name = named.name;
      recorded_.layers.push_back(std::move(layer));
    }
    return std::move(recorded_);
  }

 private:
  Result<void> Steps() {
    MPN_TRY_ASSIGN(auto reader, runs::StepReader::Create(source_));
    MPN_TRY_ASSIGN(auto first, reader.From(std::numeric_limits<int64_t>::min()));
    MPN_TRY_ASSIGN(auto last, reader.UpTo(std::numeric_limits<int64_t>::max()));
    if (!first || !last) return {};
    recorded_.steps = *last - first->step + 1;
    MPN_TRY_ASSIGN(auto row, reader.From(*last));
    if (row) recorded_.last_loss = row->loss;
    recorded_.loss_not_finite = recorded_.last_loss && !std::isfinite(*recorded_.last_loss);
    return {};
  }

  Result<void> Samples() {
    MPN_TRY_ASSIGN(auto dtypes, runs::ReadDtypeNames(source_));
    MPN_TRY_ASSIGN(auto newest, runs::LastSampledSteps(source_, {}, 1));
    if (newest.empty()) return {};
    MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source_, {"absmax", "frozen"}));
    MPN_TRY_ASSIGN(auto steps,
                   runs::SpreadSteps([&](int64_t step) { return reader.StepFrom(step); },
                                     newest.front(), kSamplesRead));
    recorded_.samples = static_cast<int64_t>(steps.size());
    for (const int64_t step : steps) {
      MPN_TRY_ASSIGN(auto rows, reader.Sample(step));
      for (const TensorRow& row : *rows) {
        const auto dtype = row.dtype ? dtypes.find(*row.dtype) : dtypes.end();
        if (auto added = Add(row, dtype == dtypes.end() ? "" : dtype->second); !added) return added;
      }
    }
    const double outputs = std::max<double>(1, static_cast<double>(outputs_));
    recorded_.computes_in = outputs_ == 0 ? "" : "float32";
    for (const auto& [dtype, count] : low_outputs_) {
      if (static_cast<double>(count) / outputs > kShareOfLowOutputs) recorded_.computes_in = dtype;
    }
    if (updated_ > 0)
      recorded_.frozen = static_cast<double>(frozen_) / static_cast<double>(updated_);
    return {};
  }

  Result<void> Add(const TensorRow& row, const std::string& dtype) {
    const bool low = dtype == "float16" || dtype == "bfloat16";
    LayerRecord& layer = found_[row.layer_id];
    switch (row.kind) {
      case runs::kActivation:
        ++outputs_;
        if (low) ++low_outputs_[dtype];
        [[fallthrough]];
      case runs::kInput:
        if (row.absmax && (!layer.absmax || *row.absmax > *layer.absmax)) {
          layer.absmax = row.absmax;
          layer.absmax_step = row.step;
        }
        layer.not_finite = layer.not_finite || row.NonFinite() > 0;
        return {};
      case runs::kActivationGradient:
      case runs::kGradient: {
        Raise(layer.gradient_absmax, row.absmax);
        recorded_.gradient_absmax = std::max(recorded_.gradient_absmax, row.absmax.value_or(0));
        MPN_TRY_ASSIGN(auto exponents, runs::ReadExponents(source_, row));
        if (!exponents) return {};
        (*exponents)[0] = std::max<int64_t>(0, (*exponents)[0] - row.zeros);
        for (size_t e = 0; e < 255; ++e) recorded_.gradient_exponents[e] += (*exponents)[e];
        return {};
      }
      case runs::kWeight:
        if (low) recorded_.low_weights = true;
        if (low) low_layers_[row.layer_id] = true;
        return {};
      case runs::kUpdate:
        if (!row.frozen || !row.numel || !low_layers_.contains(row.layer_id)) return {};
        frozen_ += *row.frozen;
        updated_ += *row.numel;
        return {};
      default:
        return {};
    }
  }

  Result<void> Profiles() {
    MPN_TRY_ASSIGN(auto shadow, runs::ReadShadowSteps(source_));
    recorded_.shadow_steps = static_cast<int64_t>(shadow.steps.size());
    if (shadow.steps.empty()) return {};
    MPN_TRY_ASSIGN(auto profile, runs::ShadowProfile::Open(source_));
    MPN_TRY_ASSIGN(auto steps,
                   runs::SpreadSteps([&](int64_t step) { return profile.StepFrom(step); },
                                     shadow.steps.back().step, kSamplesRead));
    for (const int64_t step : steps) {
      MPN_TRY_ASSIGN(auto rows, profile.At(step));
      for (const runs::ShadowProfileRow& row : rows) {
        LayerRecord& layer = found_[row.layer_id];
        if (row.phase == 1) {
          Raise(layer.fp16_flushed, row.fp16_underflow);
          continue;
        }
        Raise(layer.fp16, row.fp16);
        Raise(layer.bf16, row.bf16);
        Raise(layer.e4m3, row.e4m3);
        Raise(layer.e5m2, row.e5m2);
      }
    }
    return {};
  }

  Result<void> Findings() {
    MPN_TRY_ASSIGN(auto findings, runs::ReadShadowFindings(source_));
    for (runs::ShadowFinding& finding : findings.rows) {
      if (finding.severity == Severity::kInfo) continue;
      if (finding.proof != Proof::kProven) {
        recorded_.not_proven += finding.severity == Severity::kError ? 1 : 0;
        continue;
      }
      if (auto read = runs::CompleteFinding(source_, finding); !read) return read;
      std::string module;
      if (finding.layer_id) {
        MPN_TRY_ASSIGN(auto layer, layers_.Find(*finding.layer_id));
        module = layer.name;
      }
      recorded_.lost.push_back({std::move(finding), std::move(module)});
    }
    recorded_.notes.insert(recorded_.notes.end(), findings.notes.begin(), findings.notes.end());
    return {};
  }

  const runs::Source& source_;
  runs::Layers layers_;
  Recorded recorded_;
  std::map<int64_t, LayerRecord> found_;  // by layer
  std::map<int64_t, bool> low_layers_;    // whose weights are held in 16 bits
  std::map<std::string, int64_t> low_outputs_;
  int64_t outputs_ = 0, frozen_ = 0, updated_ = 0;
};

}  // namespace

Result<Recorded> ReadRecorded(const runs::Source& source) { return Reading(source).Run(); }

}  // namespace mpnanny::choose_precision
