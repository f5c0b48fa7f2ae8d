#include "engines/diagnosis/facts/onset.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <tuple>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/diagnosis/facts/masked.h"
#include "engines/runs/discarded.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/ranks.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Name;

constexpr int64_t kBurstGap = 50;     // steps between two bursts of one fault
constexpr int64_t kStepsBefore = 64;  // in which the step before one is looked for

// "sum (train.py:14)" of "aten.sum.dim_IntList (train.py:14)".
runs::Sentence OperatorLayer(const std::string& name) {
  const size_t end = std::min(name.find(' '), name.size());
  return {Form("{0}{1}", "{0}{1}"),
          {runs::OperatorNoun(name.substr(0, end)), EscapeControl(name.substr(end), 200)}};
}

runs::Sentence WhatOf(const Onset& onset) {
  const runs::Sentence what =
      onset.is_overflow
          ? runs::Sentence(Form("values beyond the format's range", "超出该格式范围的数值"))
      : onset.is_inf ? runs::Sentence("Inf")
      : onset.is_nan ? runs::Sentence("NaN")
                     : runs::Sentence(Form("non-finite values", "非有限值"));
  if (onset.layer.empty()) {
    if (onset.phase == Phase::kLoss) return {Form("{0} in the loss", "损失中出现{0}"), {what}};
    const bool backward = onset.phase == Phase::kBackward;
    if (!onset.kind) {
      return backward ? runs::Sentence(Form("{0} in the gradients", "梯度中出现{0}"), {what})
                      : what;
    }
    const runs::Sentence kind = KindWord(*onset.kind);
    return backward ? runs::Sentence(Form("{0} in the {1} in the gradients", "梯度的{1}中出现{0}"),
                                     {what, kind})
                    : runs::Sentence(Form("{0} in the {1}", "{1}中出现{0}"), {what, kind});
  }
  const runs::Sentence layer = onset.layer_type == "operator"
                                   ? OperatorLayer(onset.layer)
                                   : runs::Sentence(LayerWord(Name(onset.layer)));
  if (!onset.kind) return {Form("{0} in {1}", "{1} 中出现 {0}"), {what, layer}};
  return {Form("{0} in the {1} of {2}", "{2} 的{1}中出现 {0}"),
          {what, KindWord(*onset.kind), layer}};
}

Result<void> SetLayer(Onset& onset, int64_t layer_id, runs::Layers& layers) {
  MPN_TRY_ASSIGN(auto layer, layers.Find(layer_id));
  onset.layer_id = layer_id;
  onset.layer = layer.name;
  onset.layer_type = layer.type;
  onset.source = layer.source;
  return {};
}

// The best alert of a step: the earliest phase; of one phase the producer, then the layer that runs
// first.
Result<const SeenAlert*> BestOfStep(const std::vector<const SeenAlert*>& alerts,
                                    runs::Layers& layers) {
  const SeenAlert* best = nullptr;
  std::tuple<int, int, int64_t> best_key;
  for (const SeenAlert* alert : alerts) {
    int64_t position = std::numeric_limits<int64_t>::max();
    if (alert->row.layer_id) {
      MPN_TRY_ASSIGN(auto layer, layers.Find(*alert->row.layer_id));
      position = layer.position.value_or(position);
      // Backward runs through the layers from the last to the first.
      if (alert->row.phase == Phase::kBackward) position = -position;
    }
    const int producer = !alert->row.producer ? 1 : *alert->row.producer != 0 ? 0 : 2;
    // Weights that were broken before the forward pass began come before all that it made.
    const bool weights_first =
        alert->row.phase == Phase::kOptimizer && alert->detail.where == runs::Where::kWeightsBefore;
    const std::tuple key(weights_first ? -1 : runs::PhaseRank(alert->row.phase), producer,
                         position);
    if (!best || key < best_key) {
      best = alert;
      best_key = key;
    }
  }
  return best;
}

void AddCarriers(const Facts& facts, const SeenAlert* chosen, Onset& onset) {
  for (const SeenAlert& alert : facts.alerts) {
    if (&alert == chosen || alert.row.step < onset.step || !IsValueAlert(alert)) continue;
    ++onset.carrier_count;
    if (onset.carriers.size() < kCarriersKept) {
      onset.carriers.push_back({alert.layer.empty() ? "the loss" : alert.layer,
                                std::string(alert.row.type.text()), alert.row.phase,
                                alert.row.step});
    }
  }
}

// Order in which the tensors of a step come to be: batch and layers forward, then backward, then
// weights.
int KindRank(int64_t kind) {
  switch (kind) {
    case runs::kWeight:
      return 0;  // weights are read before the step changes them
    case runs::kInput:
    case runs::kActivation:
      return 1;
    case runs::kActivationGradient:
    case runs::kGradient:
      return 2;
    default:
      return 3;
  }
}

// Finds the layer in the sample of the onset's own step, if there is one.
Result<void> PlaceBySample(const runs::Source& source, runs::Layers& layers, Onset& onset) {
  MPN_TRY_ASSIGN(auto rows, runs::ReadSample(source, onset.step));
  if (rows.empty()) return {};
  const runs::TensorRow* first = nullptr;
  std::tuple<int, int64_t, int64_t> first_key;
  for (const runs::TensorRow& row : rows) {
    if (row.NonFinite() == 0) continue;
    MPN_TRY_ASSIGN(auto layer, layers.Find(row.layer_id));
    const int rank = KindRank(row.kind);
    const int64_t position = layer.position.value_or(std::numeric_limits<int64_t>::max() / 2);
    const std::tuple key(rank, rank == 2 ? -position : position, row.kind);
    if (!first || key < first_key) {
      first = &row;
      first_key = key;
    }
  }
  if (!first) {
    if (onset.phase == Phase::kLoss) {
      onset.place = Onset::Place::kProducer;
      onset.how = Form(
          "all watched tensors of this step are finite, so the value was made in the loss function "
          "or between it and the last module",
          "该步所有被监视的张量都是有限的，因此该值产生于损失函数，"
          "或产生于它与最后一个模块之间");
    }
    return {};
  }
  if (auto set = SetLayer(onset, first->layer_id, layers); !set) return set;
  onset.kind = first->kind;
  onset.is_nan = first->nan > 0;
  onset.is_inf = first->posinf + first->neginf > 0 && first->nan == 0;
  const int rank = KindRank(first->kind);
  onset.phase = rank == 0 ? Phase::kOptimizer : rank == 1 ? Phase::kForward : Phase::kBackward;
  onset.place = Onset::Place::kFirstSeen;
  onset.how =
      Form("it is the first tensor of the sampled step that is not finite, in order of execution",
           "按执行顺序，它是该采样步中首个非有限的张量");
  if (first->kind == runs::kActivation) {
    bool inputs_seen = false;
    bool inputs_clean = true;
    for (const runs::TensorRow& row : rows) {
      if (row.layer_id != first->layer_id || row.kind != runs::kInput) continue;
      inputs_seen = true;
      inputs_clean = inputs_clean && row.NonFinite() == 0;
    }
    if (inputs_seen && inputs_clean) {
      onset.place = Onset::Place::kProducer;
      onset.how = Form("its inputs are finite in the same step and its output is not",
                       "在同一步中它的输入是有限的，而输出不是");
    }
  }
  if (first->kind == runs::kInput) {
    onset.phase = Phase::kData;
    onset.how =
        Form("the input of the first layer is not finite already", "第一层的输入就已非有限");
  }
  return {};
}

}  // namespace

bool IsValueAlert(const SeenAlert& alert) {
  const Word<AlertType>& type = alert.row.type;
  return alert.row.severity == Severity::kError &&
         (type == AlertType::kNan || type == AlertType::kInf || type == AlertType::kLossNan ||
          type == AlertType::kOverflow);
}

runs::Sentence KindWord(int64_t kind) {
  std::string english = runs::KindName(kind);
  std::replace(english.begin(), english.end(), '_', ' ');
  constexpr const char* kChinese[] = {"输入", "激活",   "激活的梯度", "梯度",
                                      "权重", "更新量", "优化器状态"};
  const bool known = kind >= 0 && kind < static_cast<int64_t>(std::size(kChinese));
  return runs::Sentence::InEach(std::move(english), known ? kChinese[kind] : "张量");
}

void SetLastClean(std::optional<int64_t> sample, Onset& onset) {
  onset.last_clean_sample = sample;
  if (onset.place != Onset::Place::kUnplaced) return;
  if (sample) {
    onset.how = {Form("step {0} was not sampled; the sample of step {1} is finite everywhere",
                      "第 {0} 步没有采样；第 {1} 步的采样全部有限"),
                 {onset.step, *sample}};
  } else {
    onset.how = Form("no sample tells which layer it was", "没有采样能说明是哪一层");
  }
}

namespace {

bool HasFiniteLoss(const runs::StepRow& row) {
  return row.loss && std::isfinite(*row.loss) && !(row.flags & (runs::kLossNan | runs::kLossInf));
}

// Whether the gradient of an operator behind it leaves every format before its value does: of
// -log(p) it is 1 / p.
bool HasSteepOperator(const Onset& onset) {
  constexpr std::string_view kSteep[] = {"log",
                                         "log2",
                                         "log10",
                                         "log1p",
                                         "xlogy",
                                         "logit",
                                         "reciprocal",
                                         "rsqrt",
                                         "div",
                                         "sqrt",
                                         "pow",
                                         "norm",
                                         "linalg_vector_norm"};
  return std::any_of(
      onset.detail.operators.begin(), onset.detail.operators.end(), [&](const NanOrigin& origin) {
        const std::string_view name = runs::OperatorBaseName(origin.op);
        return std::find(std::begin(kSteep), std::end(kSteep), name) != std::end(kSteep);
      });
}

// Skipped steps and bad gradients shortly before belong to it: an alert about gradients comes late,
// because the scaler is given its chance first, and what is not finite now and then skips a step
// before it reaches the loss. The scaler's own search is none of it, and neither is a step whose
// loss was finite where the onset names the loss, but for an operator that breaks in its gradient
// first.
Result<void> MoveToFirstBurst(const runs::Source& source, const Turns& turns, Onset& onset) {
  if (onset.phase != Phase::kBackward && onset.phase != Phase::kLoss) return {};
  const int64_t told = onset.step;
  int64_t first = told, within = told;  // `within`: first step of the row of bad ones that it is in
  size_t before = 0;
  for (auto burst = turns.bursts.rbegin(); burst != turns.bursts.rend(); ++burst) {
    if (burst->scalers_own) continue;
    if (burst->first < told && burst->last >= told) {
      within = first = burst->first;
    } else if (burst->last < first && first - burst->last <= kBurstGap) {
      first = burst->first;
      ++before;
    }
  }
  // One skipped step may be a hard batch; with an operator that breaks now and then it is not.
  if (before < (onset.detail.operators.empty() ? 2 : 1)) first = within;
  if (first == told) return {};
  if (onset.phase == Phase::kLoss && !HasSteepOperator(onset)) {
    MPN_TRY_ASSIGN(const auto row, runs::ReadStep(source, first));
    if (row && HasFiniteLoss(*row)) return {};
  }
  onset.step = first;
  onset.how = {Form("{0}; gradients were not finite from step {1} on, and step {2} is the first "
                    "that tells where",
                    "{0}；从第 {1} 步起梯度非有限，第 {2} 步是首个能说明位置的步"),
               {std::move(onset.how), onset.step, told}};
  return {};
}

}  // namespace

namespace {

Result<void> AddMasked(const SeenAlert& alert, runs::Layers& layers,
                       std::optional<Masked>& masked) {
  const runs::AlertRow& row = alert.row;
  if (!masked) {
    Onset value;
    value.phase = row.phase;
    value.kind = row.kind;
    value.is_nan = row.type == AlertType::kNan;
    value.is_inf = row.type == AlertType::kInf;
    value.is_overflow = row.type == AlertType::kOverflow;
    if (row.layer_id) {
      if (auto set = SetLayer(value, *row.layer_id, layers); !set) return set;
    }
    masked = Masked{row.step,      row.step,     0,
                    WhatOf(value), value.source, runs::BatchText(alert.detail, row.step)};
  }
  masked->last_step = std::max(masked->last_step, row.last_step.value_or(row.step));
  ++masked->places;
  return {};
}

}  // namespace

Result<std::optional<Onset>> FindOnset(const runs::Source& source, const Facts& facts,
                                       const StepCourse& course, runs::Layers& layers,
                                       std::optional<Masked>& masked) {
  std::vector<const SeenAlert*> first;
  for (const SeenAlert& alert : facts.alerts) {
    if (!first.empty() && alert.row.step != first.front()->row.step) break;
    if (alert.derived || !IsValueAlert(alert)) continue;
    MPN_TRY_ASSIGN(auto harmless, runs::GradientsWereDiscarded(source, alert.row));
    if (harmless) continue;
    MPN_TRY_ASSIGN(auto unused, IsMasked(source, facts, alert));
    if (!unused) {
      first.push_back(&alert);
    } else if (auto told = AddMasked(alert, layers, masked); !told) {
      return told.error();
    }
  }
  const auto bad_step = course.FirstBadStep();
  if (first.empty() && !bad_step) return std::optional<Onset>();

  Onset onset;
  const SeenAlert* chosen = nullptr;
  if (!first.empty() && (!bad_step || first.front()->row.step <= *bad_step)) {
    MPN_TRY_ASSIGN(auto best, BestOfStep(first, layers));
    chosen = best;
    onset.step = chosen->row.step;
    onset.phase = chosen->row.phase;
    onset.kind = chosen->row.kind;
    onset.is_nan = chosen->row.type == AlertType::kNan;
    onset.is_inf = chosen->row.type == AlertType::kInf;
    onset.is_overflow = chosen->row.type == AlertType::kOverflow;
    if (chosen->row.layer_id) {
      MPN_TRY(SetLayer(onset, *chosen->row.layer_id, layers));
      onset.place = Onset::Place::kFirstSeen;
      onset.how =
          Form("it is the first alert about a non-finite value", "它是首个关于非有限值的告警");
    }
    if (chosen->row.producer == 1) {
      onset.place = Onset::Place::kProducer;
      onset.how = onset.layer.empty()
                      ? Form("every watched module of this step gave finite values",
                             "该步所有被监视的模块都给出有限值")
                      : Form("the monitor saw finite inputs and a bad output in the same step",
                             "监视器在同一步中看到有限的输入和异常的输出");
    }
  } else {
    onset.step = *bad_step;
    onset.phase = course.LossIsBad() ? Phase::kLoss : Phase::kBackward;
  }
  MPN_TRY_ASSIGN(auto row, runs::ReadStep(source, onset.step));
  if (onset.phase == Phase::kLoss && row && row->loss) {
    onset.is_nan = row->flags & runs::kLossNan;
    onset.is_inf = row->flags & runs::kLossInf;
  }
  if (onset.place == Onset::Place::kUnplaced && row && row->first_nonfinite_layer >= 0) {
    MPN_TRY(SetLayer(onset, row->first_nonfinite_layer, layers));
    onset.place = Onset::Place::kFirstSeen;
    onset.how = Form(
        "the flight recorder names it as the first layer of this step with a non-finite element",
        "飞行记录器把它记为该步首个含有非有限元素的层");
    if (onset.phase == Phase::kLoss) onset.phase = Phase::kForward;
  }
  if (onset.place == Onset::Place::kUnplaced) {
    MPN_TRY(PlaceBySample(source, layers, onset));
  }
  if (chosen) onset.detail = chosen->detail;
  // Weights that a forward pass found broken were written at the end of the step before.
  if (onset.phase == Phase::kOptimizer && onset.detail.where == runs::Where::kWeightsBefore) {
    std::optional<int64_t> before;
    MPN_TRY(runs::ForEachStep(source, {onset.step - kStepsBefore, onset.step - 1},
                              [&](const runs::StepRow& step) {
                                before = step.step;
                                return true;
                              }));
    if (before) {
      onset.how = {Form("found by the forward pass of step {0}; the step before wrote it",
                        "由第 {0} 步的前向传播发现；是前一步写入的"),
                   {onset.step}};
      onset.step = *before;
    }
  }
  MPN_TRY(MoveToFirstBurst(source, facts.turns, onset));
  AddCarriers(facts, chosen, onset);
  onset.what = WhatOf(onset);
  if (chosen) {
    onset.ranks = chosen->row.ranks;
  } else if (row) {
    onset.ranks = row->bad_ranks;
  }
  if (!onset.ranks.empty()) {
    onset.what = {Form("{0} on {1}", "{0}（{1}）"),
                  {onset.what, runs::RanksText(onset.ranks, source.run.world_size)}};
  }
  return std::optional(std::move(onset));
}

}  // namespace mpnanny::diagnosis
