// A gradient that fades from layer to layer on its way to the input, along one path of the forward
// pass. That a module gets what another one gave is measured: it is the same tensor, by its
// figures. Two nets that share no path (an actor and its critic) are never set one after the other.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// A sigmoid passes on a quarter at most: six of them leave 1/4096, and weights under 1 less.
constexpr double kFade = 1000;
constexpr size_t kDepth = 4;  // weight matrices in a row
// Of the fade, as a share of its logarithm, what one matrix may take: a head that begins near 0 or
// a single dead layer is another matter.
constexpr double kMostOfOne = 0.5;
constexpr double kLearns = 0.05;  // of the loss

// A module in one sample. Indices are of the sample's modules, in the order of the forward pass.
struct Stage {
  const Series* output = nullptr;
  std::vector<const Measured*> inputs, outputs;
  const Series* matrix = nullptr;  // the gradient of its weight
  double gradient = 0;             // rms of that
  std::optional<size_t> before;    // on the path with the most matrices that ends here
  size_t depth = 0;                // matrices on it
  bool last = true;                // no module takes what it gives
};

using Figures = std::tuple<double, double, float>;

// The same of one tensor wherever it is looked at; the sum of squares depends on the order.
std::optional<Figures> FiguresOf(const Measured& point) {
  if (!point.absmax || !(*point.absmax > 0) || !point.rms) return std::nullopt;
  return Figures(point.numel, *point.absmax, static_cast<float>(*point.rms));
}

// "pi.0" of "pi.0.weight"; "" of what is no matrix.
std::string ModuleOfMatrix(const Series& series) {
  constexpr std::string_view kWeight = ".weight";
  if (series.kind != runs::kGradient || series.last().numel <= 1 ||
      !series.layer.ends_with(kWeight) || NameHas(series.layer, {"norm", ".ln", "bn"})) {
    return "";
  }
  return series.layer.substr(0, series.layer.size() - kWeight.size());
}

// `facts.profile.series` stand in the order of the forward pass.
std::vector<Stage> StagesOf(const Facts& facts, int64_t step) {
  std::vector<Stage> stages;
  std::map<std::string, size_t> named;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kInput && series.kind != runs::kActivation) continue;
    const Measured* point = series.At(step);
    if (!point) continue;
    const auto [it, fresh] = named.try_emplace(series.layer, stages.size());
    if (fresh) stages.emplace_back();
    Stage& stage = stages[it->second];
    (series.kind == runs::kInput ? stage.inputs : stage.outputs).push_back(point);
    if (series.kind == runs::kActivation) stage.output = &series;
  }
  for (const Series& series : facts.profile.series) {
    const auto it = named.find(ModuleOfMatrix(series));
    const Measured* point = it == named.end() ? nullptr : series.At(step);
    if (!point || !point->rms) continue;
    stages[it->second].matrix = &series;
    stages[it->second].gradient = *point->rms;
  }
  return stages;
}

void Connect(std::vector<Stage>& stages) {
  std::map<Figures, size_t> given;  // by whom last
  for (size_t i = 0; i < stages.size(); ++i) {
    Stage& stage = stages[i];
    for (const Measured* input : stage.inputs) {
      const auto figures = FiguresOf(*input);
      const auto giver = figures ? given.find(*figures) : given.end();
      if (giver == given.end()) continue;
      stages[giver->second].last = false;
      if (!stage.before || stages[giver->second].depth > stages[*stage.before].depth) {
        stage.before = giver->second;
      }
    }
    stage.depth = (stage.before ? stages[*stage.before].depth : 0) + (stage.matrix != nullptr);
    for (const Measured* output : stage.outputs) {
      if (const auto figures = FiguresOf(*output)) given[*figures] = i;
    }
  }
}

struct Fade {
  int64_t step = 0;
  std::vector<const Stage*> matrices;  // from the input to the output
  bool saturating = false;

  double Times() const { return matrices.back()->gradient / matrices.front()->gradient; }
};

bool IsSaturating(const std::string& type) {
  return type == "Sigmoid" || type == "Tanh" || type == "Hardsigmoid" || type == "LogSigmoid";
}

Fade PathTo(const std::vector<Stage>& stages, size_t end) {
  Fade fade;
  for (std::optional<size_t> i = end; i; i = stages[*i].before) {
    if (stages[*i].matrix) fade.matrices.push_back(&stages[*i]);
    fade.saturating =
        fade.saturating || (stages[*i].output && IsSaturating(stages[*i].output->type));
  }
  std::reverse(fade.matrices.begin(), fade.matrices.end());
  return fade;
}

// Growing towards the output nearly all along, and by no single matrix alone.
bool IsFade(const Fade& fade) {
  if (fade.matrices.size() < kDepth || !(fade.matrices.front()->gradient > 0)) return false;
  if (fade.Times() < kFade) return false;
  size_t rising = 0;
  double most = 1;
  for (size_t i = 1; i < fade.matrices.size(); ++i) {
    const double below = fade.matrices[i - 1]->gradient, above = fade.matrices[i]->gradient;
    rising += above > below;
    if (!(below > 0)) return false;
    most = std::max(most, above / below);
  }
  return rising * 4 >= (fade.matrices.size() - 1) * 3 &&
         std::log(most) <= kMostOfOne * std::log(fade.Times());
}

void Tell(const Facts& facts, const Fade& fade, std::vector<Claim>& claims) {
  const std::string from = runs::Name(fade.matrices.back()->matrix->layer),
                    to = runs::Name(fade.matrices.front()->matrix->layer);
  Claim claim;
  claim.id = "fading-gradient";
  // A net that learns all the same does without those gradients.
  const summary::Summary& s = facts.summary;
  if (s.loss_start && s.loss_end &&
      *s.loss_end > *s.loss_start - kLearns * std::fabs(*s.loss_start)) {
    claim.ground = Ground::kMeasured;
  }
  claim.sentence = {
      Form("At step {0} the gradient fades from {1} ({2}) to {3} ({4}) over {5} matrices, by {6} a "
           "layer{7}. It does so in every precision.",
           "在第 {0} 步，梯度经过 {5} 个矩阵从 {1}（{2}）衰减到 {3}（{4}"
           "），每层 {6} 倍{7}。在任何精度下都是如此。"),
      {fade.step, runs::Number(fade.matrices.back()->gradient), from,
       runs::Number(fade.matrices.front()->gradient), to,
       static_cast<int64_t>(fade.matrices.size()),
       runs::Number(std::pow(fade.Times(), 1.0 / static_cast<double>(fade.matrices.size() - 1)), 3),
       fade.saturating ? Form(": saturating activations pass on a quarter at most",
                              "：饱和的激活函数最多传递四分之一")
                       : runs::Sentence()}};
  claim.strength = fade.saturating ? 1 : 0.7;
  claim.fault = true;
  claim.place = FaultPlace{
      fade.step,
      Phase::kBackward,
      "",
      "",
      "",
      {Form("a gradient that faded on its way to {0}", "在传到 {0} 的途中衰减的梯度"), {to}}};
  claims.push_back(std::move(claim));
}

}  // namespace

void DetectFadingGradient(const Facts& facts, std::vector<Claim>& claims) {
  if (facts.onset || FindClaim(claims, "dead-units")) return;
  // The first sample that shows it; of its paths, the one on which most is lost.
  for (const int64_t step : facts.profile.steps) {
    std::vector<Stage> stages = StagesOf(facts, step);
    Connect(stages);
    std::optional<Fade> worst;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!stages[i].last || stages[i].depth < kDepth) continue;
      Fade fade = PathTo(stages, i);
      fade.step = step;
      if (IsFade(fade) && (!worst || fade.Times() > worst->Times())) worst = std::move(fade);
    }
    if (worst) return Tell(facts, *worst, claims);
  }
}

}  // namespace mpnanny::diagnosis
