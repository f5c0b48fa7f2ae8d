#include "tools/diagnose_run/signal_words.h"

#include <algorithm>
#include <string_view>

#include "base/layer_word.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Number;

struct ColumnWords {
  std::string_view column, words;
};

constexpr ColumnWords kOfStep[] = {
    {"loss", "the loss"},
    {"lr", "the learning rate"},
    {"loss_scale", "the loss scale"},
    {"grad_norm", "the gradient norm"},
    {"duration", "the time of a step"},
    {"peak_memory", "the peak of device memory"},
};

constexpr ColumnWords kValues[] = {
    {"absmax", "the largest magnitude"},
    {"absmin", "the smallest magnitude above 0"},
    {"min", "the smallest value"},
    {"max", "the largest value"},
    {"mean", "the mean"},
    {"std", "the standard deviation"},
    {"rms", "the root mean square"},
    {"l2", "the L2 norm"},
};

// Counted elements: "the number of …" or "the share of …".
constexpr ColumnWords kCounts[] = {
    {"nan", "NaN elements"},
    {"posinf", "+Inf elements"},
    {"neginf", "-Inf elements"},
    {"zeros", "elements that are 0"},
    {"below_fp16", "elements that FP16 rounds to 0"},
    {"subnormal_fp16", "elements that FP16 holds as subnormal"},
    {"above_fp16", "elements too large for FP16"},
    {"frozen", "changes too small to move their weight"},
};

template <size_t n>
std::string_view Find(const ColumnWords (&table)[n], std::string_view column) {
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const auto& row) { return row.column == column; });
  return found == std::end(table) ? std::string_view() : found->words;
}

std::string FigureWords(const cases::Signal& signal) {
  if (signal.of == "step") {
    if (const auto words = Find(kOfStep, signal.name); !words.empty()) return std::string(words);
  } else if (const auto counted = Find(kCounts, signal.name); !counted.empty()) {
    return (signal.share ? "the share of " : "the number of ") + std::string(counted);
  } else if (const auto words = Find(kValues, signal.name); !words.empty()) {
    return std::string(words);
  }
  std::string words = "the figure " + signal.name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string_view Comparison(std::string_view op) {
  return op == ">"    ? "more than "
         : op == ">=" ? "at least "
         : op == "<"  ? "less than "
         : op == "<=" ? "at most "
         : op == "==" ? "exactly "
                      : "other than ";
}

std::string Value(const cases::Signal& signal, double value) {
  return signal.share ? Number(100 * value, 3) + " %" : Number(value);
}

}  // namespace

std::string StatSentence(const cases::Signal& signal, const StatHit& hit) {
  const std::string layer = hit.layer.empty() ? "" : LayerWord(runs::Name(hit.layer));
  // Every tensor has elements: what the signal asks for is that there is such a layer.
  if (signal.name == "numel" && !layer.empty()) {
    return "the run has " + layer + ", a layer of the kind that this case is about";
  }
  std::string kind = signal.of;
  std::replace(kind.begin(), kind.end(), '_', ' ');
  return FigureWords(signal) + (signal.of == "step" ? "" : " in the " + kind) +
         (layer.empty() ? "" : " of " + layer) + " was " + Value(signal, hit.value) + " at step " +
         std::to_string(hit.step) + " (this case has " + std::string(Comparison(signal.op)) +
         Value(signal, signal.value) + ")";
}

}  // namespace mpnanny::diagnose_run
