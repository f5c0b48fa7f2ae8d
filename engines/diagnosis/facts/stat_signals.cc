#include "engines/diagnosis/facts/stat_signals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

namespace mpnanny::diagnosis {
namespace {

using cases::Signal;

std::optional<double> Column(const runs::TensorRow& row, std::string_view name) {
  const auto count = [](std::optional<int64_t> n) {
    return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
  };
  if (name == "absmax") return row.absmax;
  if (name == "nan") return count(row.nan);
  if (name == "posinf") return count(row.posinf);
  if (name == "neginf") return count(row.neginf);
  if (name == "zeros") return count(row.zeros);
  if (name == "numel") return count(row.numel);
  if (name == "min") return row.min;
  if (name == "max") return row.max;
  if (name == "absmin") return row.absmin;
  if (name == "mean") return row.mean;
  if (name == "std") return row.std;
  if (name == "rms") return row.rms;
  if (name == "l2") return row.l2;
  if (name == "below_fp16") return count(row.below_fp16);
  if (name == "subnormal_fp16") return count(row.subnormal_fp16);
  if (name == "above_fp16") return count(row.above_fp16);
  if (name == "frozen") return count(row.frozen);
  return std::nullopt;
}

// Null for peak_memory, which is a count; absent for what is no figure of a step.
std::optional<std::optional<double> runs::StepRow::*> FigureOf(std::string_view name) {
  if (name == "loss") return &runs::StepRow::loss;
  if (name == "lr") return &runs::StepRow::lr;
  if (name == "loss_scale") return &runs::StepRow::loss_scale;
  if (name == "grad_norm") return &runs::StepRow::grad_norm;
  if (name == "duration") return &runs::StepRow::duration;
  if (name == "peak_memory") return nullptr;
  return std::nullopt;
}

bool IsSize(std::string_view name) {
  return name == "absmax" || name == "rms" || name == "l2" || name == "grad_norm";
}

// The best hit of each signal, by its text.
class Hits {
 public:
  void Offer(const Signal& signal, double value, int64_t step, const std::string& layer) {
    if (!cases::FitsValue(signal, value)) return;
    // What is exactly 0 is not small: nothing arrives there, which is another fault.
    if (signal.op.starts_with('<') && value == 0 && IsSize(signal.name)) return;
    auto [it, fresh] = best_.try_emplace(signal.text, StatHit{signal.text, step, layer, value});
    const bool lower = signal.op.starts_with('<');
    if (!fresh && (lower ? value < it->second.value : value > it->second.value)) {
      it->second = {signal.text, step, layer, value};
    }
  }
  std::vector<StatHit> Take() {
    std::vector<StatHit> hits;
    for (auto& [text, hit] : best_) hits.push_back(std::move(hit));
    return hits;
  }

 private:
  std::map<std::string, StatHit> best_;
};

std::vector<const Signal*> SignalsOf(const cases::CaseLibrary& library, bool of_step) {
  std::map<std::string, const Signal*> distinct;
  for (const cases::Case& entry : library.all()) {
    for (const Signal& signal : entry.signals) {
      if (signal.kind == Signal::Kind::kStat && (signal.of == "step") == of_step) {
        distinct.emplace(signal.text, &signal);
      }
    }
  }
  std::vector<const Signal*> signals;
  for (const auto& [text, signal] : distinct) signals.push_back(signal);
  return signals;
}

// Remembers which signals fit which layer by kind and name, so that globs are matched once a layer.
class FittingSignals {
 public:
  FittingSignals(std::vector<const Signal*> signals, runs::Layers& layers)
      : signals_(std::move(signals)), layers_(layers) {}

  struct Entry {
    std::string layer;
    std::vector<const Signal*> signals;
  };
  Result<const Entry*> Of(const runs::TensorRow& row) {
    const auto [it, fresh] = known_.try_emplace({row.layer_id, row.kind});
    if (!fresh) return &it->second;
    MPN_TRY_ASSIGN(auto layer, layers_.Find(row.layer_id));
    it->second.layer = layer.name;
    const std::string kind = runs::KindName(row.kind);
    for (const Signal* signal : signals_) {
      if (signal->of == kind && cases::FitsLayer(*signal, layer.name)) {
        it->second.signals.push_back(signal);
      }
    }
    return &it->second;
  }

 private:
  std::vector<const Signal*> signals_;
  runs::Layers& layers_;
  std::map<std::pair<int64_t, int64_t>, Entry> known_;
};

}  // namespace

class StatSignals::State {
 public:
  State(const cases::CaseLibrary& library, runs::Layers& layers)
      : fitting_(SignalsOf(library, /*of_step=*/false), layers) {}

  Result<void> Offer(const runs::TensorRow& row) {
    MPN_TRY_ASSIGN(auto entry, fitting_.Of(row));
    for (const Signal* signal : entry->signals) {
      auto value = Column(row, signal->name);
      if (!value) continue;
      if (signal->share) {
        if (row.numel.value_or(0) <= 0) continue;
        *value /= static_cast<double>(*row.numel);
      }
      hits_.Offer(*signal, *value, row.step, entry->layer);
    }
    return {};
  }
  std::vector<StatHit> Take() { return hits_.Take(); }

 private:
  FittingSignals fitting_;
  Hits hits_;
};

StatSignals::StatSignals(const cases::CaseLibrary& library, runs::Layers& layers)
    : state_(std::make_unique<State>(library, layers)) {}
StatSignals::~StatSignals() = default;
Result<void> StatSignals::Offer(const runs::TensorRow& row) { return state_->Offer(row); }
std::vector<StatHit> StatSignals::Take() { return state_->Take(); }

StepSignals::StepSignals(const cases::CaseLibrary& library) {
  for (const Signal* signal : SignalsOf(library, /*of_step=*/true)) {
    const auto figure = FigureOf(signal->name);
    if (figure) watched_.push_back({signal, *figure, signal->op.starts_with('<')});
  }
}

std::string StepSignals::Texts(const cases::CaseLibrary& library) {
  std::string texts;
  for (const Signal* signal : SignalsOf(library, /*of_step=*/true)) texts += signal->text + "\n";
  return texts;
}

// Called for every step: nothing is looked up here.
void StepSignals::Offer(const runs::StepRow& row) {
  for (Watched& watched : watched_) {
    double value = 0;
    if (watched.figure) {
      const std::optional<double>& figure = row.*watched.figure;
      if (!figure) continue;
      value = *figure;
    } else {
      if (!row.peak_memory) continue;
      value = static_cast<double>(*row.peak_memory);
    }
    std::optional<StatHit>& best = watched.best;
    if (best && !(watched.least ? value < best->value : value > best->value)) continue;
    if (!std::isfinite(value) || !cases::FitsValue(*watched.signal, value)) continue;
    best = StatHit{watched.signal->text, row.step, "", value};
  }
}

std::vector<StatHit> StepSignals::Take() {
  std::vector<StatHit> hits;
  for (Watched& watched : watched_) {
    if (watched.best) hits.push_back(*std::move(watched.best));
    watched.best.reset();
  }
  return hits;
}

Result<void> FindStepSignals(const runs::Source& source, int64_t last,
                             const cases::CaseLibrary& library, std::vector<StatHit>& found) {
  StepSignals signals(library);
  MPN_TRY(runs::ForEachStep(source, {std::numeric_limits<int64_t>::min(), last},
                            [&](const runs::StepRow& row) {
                              signals.Offer(row);
                              return true;
                            }));
  for (StatHit& hit : signals.Take()) found.push_back(std::move(hit));
  return {};
}

}  // namespace mpnanny::diagnosis
