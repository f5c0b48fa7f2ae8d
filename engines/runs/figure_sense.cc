#include "engines/runs/figure_sense.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "base/text.h"

namespace mpnanny::runs {
namespace {

bool HoldsPart(const std::string& name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

// One of the words that the name is made of; letters only, so that "acc1" is "acc".
bool HasWordOf(const std::string& name, std::initializer_list<std::string_view> words) {
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && std::isalpha(static_cast<unsigned char>(name[end]))) ++end;
    const std::string_view word = std::string_view(name).substr(at, end - at);
    if (std::find(words.begin(), words.end(), word) != words.end()) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

Sense SenseOf(const std::string& raw) {
  const std::string name = LowerCase(raw);
  // Other quantities, and statistics that say little of where the figure went.
  if (HoldsPart(name, {"time",      "/min",   "/max",   "_min",   "_max",       "std",     "coef",
                       "clip",      "diff",   "advant", "critic", "throughput", "per_sec", "chosen",
                       "rejected",  "logp",   "code_",  "prob_",  "best",       "worst",   "frac",
                       "threshold", "target", "tokens", "count"}) ||
      HasWordOf(name, {"lr", "kl", "value", "values", "num", "n", "total", "min", "max", "ms"})) {
    // "reward/total" is a score all the same.
    if (!(name.ends_with("reward/total") || name.ends_with("total_reward"))) return Sense::kUnknown;
  }
  const bool evaluated = HasWordOf(name, {"eval", "val", "valid", "validation", "test", "dev"});
  if (evaluated && HoldsPart(name, {"loss", "ppl", "perplexity", "bpb"})) return Sense::kEvaluated;
  if (HoldsPart(name, {"loss", "grad", "norm"})) return Sense::kUnknown;
  if (HasWordOf(name, {"wer", "cer", "fid", "mae", "rmse", "mse", "err", "error"})) {
    return Sense::kError;
  }
  if (HasWordOf(name, {"entropy"})) return Sense::kEntropy;
  if (HoldsPart(name, {"response_length", "completion_length", "completions/mean_length"}) &&
      HoldsPart(name, {"mean"})) {
    return Sense::kLength;
  }
  if (HasWordOf(name, {"accuracy", "accuracies", "acc",     "top",       "rew",    "reward",
                       "rewards",  "score",      "scores",  "bleu",      "rouge",  "rougel",
                       "f",        "map",        "psnr",    "ssim",      "iou",    "miou",
                       "auc",      "success",    "correct", "auroc",     "auprc",  "dice",
                       "win",      "wins",       "recall",  "precision", "return", "returns"}) ||
      HoldsPart(name, {"pass_rate", "win_rate", "prec@", "f1"})) {
    return Sense::kScore;
  }
  return Sense::kUnknown;
}

bool IsScore(const std::string& name) {
  const Sense sense = SenseOf(name);
  return sense == Sense::kScore || sense == Sense::kError;
}

}  // namespace mpnanny::runs
