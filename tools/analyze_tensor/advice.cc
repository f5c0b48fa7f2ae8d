#include "tools/analyze_tensor/advice.h"

#include <cmath>
#include <utility>

#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::analyze_tensor {
namespace {

using runs::Number;
using runs::PercentText;

std::string NameOf(Format format) {
  switch (format) {
    case Format::kE4M3:
      return "FP8 E4M3";
    case Format::kE5M2:
      return "FP8 E5M2";
    case Format::kFp16:
      return "FP16";
    case Format::kBf16:
      return "BF16";
    case Format::kTf32:
      return "TF32";
    default:
      return "FP32";
  }
}

double ShareOfAll(int64_t count, const FormatLoss& loss) {
  return loss.numel > 0 ? static_cast<double>(count) / static_cast<double>(loss.numel) : 0;
}

std::string ScaleText(int exponent) { return "2^" + std::to_string(exponent); }

void AddOverflow(const InFormat& in, Advice& advice) {
  if (in.plain.overflow == 0) return;
  std::string text = NameOf(in.format) + " cannot hold " + std::to_string(in.plain.overflow) +
                     " elements (" + PercentText(ShareOfAll(in.plain.overflow, in.plain)) +
                     "): it ends at " + Number(Info(in.format).max, 6) + ". ";
  const double under = ShareOfAll(in.scaled.underflow, in.scaled);
  text += "Keep it in FP32 or BF16, or multiply by " + ScaleText(in.best_scale) + ", after which " +
          (under > 0 ? PercentText(under) + " become 0." : "nothing becomes 0.");
  advice.sentences.push_back(std::move(text));
  advice.alerts.emplace_back("OVERFLOW");
}

void AddUnderflow(const InFormat& in, const Limits& limits, Advice& advice) {
  const double share = ShareOfAll(in.plain.underflow, in.plain);
  if (share <= limits.underflow_warn) return;
  std::string text = PercentText(share) + " of the elements become 0 in " + NameOf(in.format);
  text += share > limits.underflow_error ? ": too many to train with. " : ". ";
  const double scaled = ShareOfAll(in.scaled.underflow, in.scaled);
  if (in.best_scale > 0 && scaled < share / 2) {
    text += "Multiplied by " + ScaleText(in.best_scale) + " it is " +
            (scaled > 0 ? PercentText(scaled) : "none") + ".";
  } else {
    text += "No scale helps: their range is too wide for this format.";
  }
  advice.sentences.push_back(std::move(text));
  advice.alerts.emplace_back("UNDERFLOW");
}

void AddImbalance(const Analysis& analysis, const Limits& limits, Advice& advice) {
  const DimensionLoss* worst = nullptr;
  for (const DimensionLoss& each : analysis.dims) {
    if (each.imbalance > limits.imbalance &&
        (worst == nullptr || each.absorbed > worst->absorbed)) {
      worst = &each;
    }
  }
  if (worst == nullptr) return;
  advice.sentences.push_back(
      "Slices along dimension " + std::to_string(worst->dim) + " differ " +
      Number(worst->imbalance, 3) + "-fold: in a sum over it that is kept in " +
      NameOf(analysis.reduced_in) + ", " + PercentText(worst->absorbed) +
      " of the addends vanish. Sum in FP32, or give each slice a scale of its own.");
  advice.alerts.emplace_back("DIM_IMBALANCE");
}

// Of a tensor that is wider than its values are.
void AddGrid(const TensorStats& stats, Advice& advice) {
  const Grid grid = GridOf(stats);
  if (grid != Grid::kBf16 && grid != Grid::kFp16) return;
  const std::string name = grid == Grid::kBf16 ? "BF16" : "FP16";
  std::string text = "Every value is a number of " + name + " as it is: these have been " + name +
                     " before, and what they had beyond it is lost. Kept as " + name +
                     " they lose nothing more.";
  if (grid == Grid::kFp16 && 10 * stats.zeros > stats.finite) {
    text += " " +
            PercentText(static_cast<double>(stats.zeros) / static_cast<double>(stats.finite)) +
            " are 0, as what was too small for FP16 is.";
  }
  advice.sentences.push_back(std::move(text));
}

// What an unremarkable tensor loses.
std::string Unremarkable(const Analysis& analysis) {
  if (analysis.stats.finite == 0 || analysis.formats.empty()) {
    return "There is no finite element to judge.";
  }
  std::string text = "Nothing is lost beyond rounding";
  for (const InFormat& in : analysis.formats) {
    if (in.plain.overflow > 0 || !std::isfinite(in.plain.p99_error)) continue;
    text += (text.ends_with("rounding") ? ": " : ", ") + NameOf(in.format) + " " +
            PercentText(in.plain.p99_error);
  }
  return text + " (99th percentile of the relative error).";
}

}  // namespace

Advice AdviceFor(const Analysis& analysis, const Limits& limits) {
  Advice advice;
  const TensorStats& stats = analysis.stats;
  if (stats.nonfinite() > 0) {
    advice.sentences.push_back(
        std::to_string(stats.nonfinite()) + " of " + std::to_string(stats.numel) +
        " elements are NaN or infinite already: find what made them before you choose a format.");
    advice.alerts.emplace_back(stats.nan > 0 ? "NAN" : "INF");
  }
  for (const InFormat& in : analysis.formats) AddOverflow(in, advice);
  for (const InFormat& in : analysis.formats) {
    if (in.plain.overflow == 0) AddUnderflow(in, limits, advice);
  }
  AddImbalance(analysis, limits, advice);
  AddGrid(stats, advice);
  if (advice.sentences.empty()) advice.sentences.push_back(Unremarkable(analysis));
  return advice;
}

std::vector<std::string> GridAdvice(const std::vector<Ranked>& ranked) {
  std::vector<std::string> found;
  for (const auto& [grid, name] :
       {std::pair(Grid::kBf16, "BF16"), std::pair(Grid::kFp16, "FP16")}) {
    int64_t tensors = 0, wide = 0, elements = 0, all = 0;
    for (const Ranked& each : ranked) {
      if (!each.problem.empty() || each.grid == Grid::kUnknown) continue;
      ++wide;
      all += each.numel;
      if (each.grid != grid) continue;
      ++tensors;
      elements += each.numel;
    }
    if (tensors == 0) continue;
    found.push_back(std::to_string(tensors) + " of " + std::to_string(wide) +
                    " FP32 and FP64 tensors (" +
                    PercentText(static_cast<double>(elements) / static_cast<double>(all)) +
                    " of their elements) hold only values of " + name + ": they have been " + name +
                    " before.");
  }
  return found;
}

}  // namespace mpnanny::analyze_tensor
