#include "engines/runs/import/field.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "engines/runs/import/characters.h"

namespace mpnanny::imports {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A key in one spelling: "Grad-Norm" and "grad norm" are "grad_norm".
std::string Plain(std::string_view key) {
  std::string plain(key);
  for (char& c : plain) {
    if (c == '-' || c == ' ' || c == '.' || c == ':') c = '_';
  }
  return plain;
}

template <typename F>
bool AnyWord(const std::string& plain, const F& fits) {
  for (size_t start = 0; start <= plain.size();) {
    const size_t end = std::min(plain.find_first_of("_/", start), plain.size());
    if (fits(std::string_view(plain).substr(start, end - start))) return true;
    start = end + 1;
  }
  return false;
}

bool IsOfEvaluation(const std::string& plain) {
  return AnyWord(plain, [](std::string_view word) {
    return word == "val" || word == "test" || word == "dev" || word.starts_with("eval") ||
           word.starts_with("valid");
  });
}

// Taken over something else than the steps: the best so far, a figure over samples.
bool IsOverOther(const std::string& plain) {
  return AnyWord(plain, [](std::string_view word) { return word == "best" || word == "vs"; });
}

bool HasWordAside(const std::string& plain) { return IsOfEvaluation(plain) || IsOverOther(plain); }

// "current_steps", "completed_iterations": how far it has come, while "eval_steps" and "save_steps"
// are settings.
bool IsCountSoFar(const std::string& plain) {
  if (!plain.ends_with("steps") && !plain.ends_with("iterations") && !plain.ends_with("iters") &&
      !plain.ends_with("updates")) {
    return false;
  }
  return AnyWord(plain, [](std::string_view word) {
    return word == "current" || word == "cur" || word == "completed" || word == "done" ||
           word == "finished" || word == "elapsed";
  });
}

bool IsCountOfBatch(const std::string& plain) {
  return plain == "batch_i" || plain == "batch_idx" || plain == "batch_index";
}

// "full_loss_num", "loss_weight": what is counted, or set, and no loss.
bool IsAboutLoss(const std::string& plain) {
  return AnyWord(plain, [](std::string_view word) {
    return word == "num" || word == "count" || word == "weight" || word == "weights" ||
           word == "coef" || word == "coeff" || word == "every" || word == "freq" ||
           word == "interval" || word == "patience" || word == "steps";
  });
}

// The key without the folders before it: "loss" of "train/loss".
std::string_view Last(std::string_view plain) { return plain.substr(plain.rfind('/') + 1); }

bool EndsAsWord(std::string_view text, std::string_view word) {
  return text == word || (text.size() > word.size() && text.ends_with(word) &&
                          (text[text.size() - word.size() - 1] == '_' ||
                           text[text.size() - word.size() - 1] == '/'));
}

// What prints as a call of its type: "tensor(nan)", "np.float64(0.5)", "array(0.5)".
size_t TypeBefore(std::string_view text) {
  if (text.empty() || (text[0] != 't' && text[0] != 'n' && text[0] != 'a')) return 0;
  for (const std::string_view type : {"tensor(", "np.float64(", "np.float32(", "np.float16(",
                                      "np.int64(", "np.int32(", "array("}) {
    if (text.starts_with(type)) return type.size();
  }
  return 0;
}

// A name that says the norm of the whole gradient, and neither one parameter's nor a bound for it:
// every word after the last folder is one of these.
bool IsTotalNorm(const std::string& plain) {
  static constexpr std::string_view kWords[] = {
      "grad",    "grads",     "gradient", "gradients", "norm",      "gnorm",         "total",
      "global",  "l2",        "2",        "0",         "all",       "mean",          "avg",
      "average", "unclipped", "clipped",  "before",    "after",     "pre",           "post",
      "preclip", "postclip",  "clipping", "train",     "training",  "actor",         "critic",
      "policy",  "model",     "step",     "epoch",     "optim",     "raw",           "unscaled",
      "g",       "d",         "overall",  "value",     "generator", "discriminator", "gen",
      "disc",    "current"};
  const size_t slash = plain.rfind('/');
  std::string_view last = std::string_view(plain).substr(slash + 1);
  // "sun-1 - grad_norm": W&B's exports have the run before it.
  constexpr std::string_view kBehindRun = "___";
  if (const size_t run = last.rfind(kBehindRun); run != std::string_view::npos) {
    last.remove_prefix(run + kBehindRun.size());
  }
  const std::string folder = plain.substr(0, slash + 1);
  const auto of = [&](const char* part) { return folder.find(part) != std::string::npos; };
  const bool of_layer = of("layer") || of("block") || of("weight") || of("bias") || of("param");
  bool norm = false;
  const bool only = !AnyWord(std::string(last), [&](std::string_view word) {
    norm = norm || word == "norm" || word == "gnorm" || word == "l2";
    return !word.empty() &&
           std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords);
  });
  const bool of_gradient =
      plain.find("grad") != std::string::npos || plain.find("gnorm") != std::string::npos;
  const bool folder_says = of("norm");
  return only && !of_layer && (norm || folder_says) &&
         (of_gradient || plain.find("total_norm") != std::string::npos ||
          plain.find("global_norm") != std::string::npos);
}

// "lr-AdamW/pg1", as learning-rate monitors name it, and no setting ("lr_warmup_steps").
bool IsLrOfOptimizer(const std::string& plain) {
  if (!plain.starts_with("lr_")) return false;
  const std::string_view rest = std::string_view(plain).substr(3);
  for (const char* word : {"adam", "sgd", "lion", "rmsprop", "adagrad", "group", "pg", "opt"}) {
    if (rest.starts_with(word)) return true;
  }
  return !rest.empty() && IsDigit(rest[0]);
}

}  // namespace

Field FieldOf(std::string_view key) {
  // Most keys of a log ("samples/s") have none of the letters that the known ones are told by.
  const auto holds = [&](const char* part) { return key.find(part) != std::string_view::npos; };
  if (!holds("loss") && !holds("scale") && !holds("norm") && !holds("grad") && !holds("lr") &&
      !holds("learn") && !holds("cost") && !holds("epoch") && !holds("step") && !holds("it") &&
      !holds("updates") && !holds("batch")) {
    return Field::kNone;
  }
  if (key.ends_with(".py")) return Field::kNone;  // "loss_scaler.py:181" says who prints
  const std::string plain = Plain(key);
  const auto has = [&](const char* word) { return plain.find(word) != std::string::npos; };
  if (HasWordAside(plain)) {
    const bool loss =
        has("loss") && !IsAboutLoss(plain) && !has("scale") && !has("norm") && !IsOverOther(plain);
    return loss ? Field::kEvalLoss : Field::kNone;
  }
  const std::string_view last = Last(plain);
  // "loss_scaled" and "loss_ce_unscaled" are losses, and no scale.
  if (AnyWord(plain, [&](std::string_view word) {
        return word == "scaled" || (word == "unscaled" && !has("norm"));
      })) {
    return has("loss") && !has("norm") ? Field::kLoss : Field::kNone;
  }
  if (has("scale")) {
    return has("loss") || has("grad") || last == "scale" ? Field::kScale : Field::kNone;
  }
  if (has("norm") || has("grad_l2")) {
    return IsTotalNorm(plain) ? Field::kGradNorm : Field::kNone;
  }
  if (has("loss")) return IsAboutLoss(plain) ? Field::kNone : Field::kLoss;
  // Where nothing is called a loss: "Iter 100, cost: 0.32".
  if (plain == "cost" || plain == "train_cost" || plain == "avg_cost") return Field::kLoss;
  if (EndsAsWord(plain, "lr") || has("learning_rate") || IsLrOfOptimizer(plain)) return Field::kLr;
  if (plain == "epoch") return Field::kEpoch;
  for (const char* step : {"step", "_step", "steps", "iter", "iteration", "it", "global_step",
                           "num_updates", "trainer/global_step", "global_steps", "iterations"}) {
    if (plain == step) return Field::kStep;
  }
  if (IsCountOfBatch(plain) || IsCountSoFar(plain)) return Field::kStep;
  for (const char* other : {"per_", "max", "total", "warmup", "num_", "save", "accum"}) {
    if (has(other)) return Field::kNone;
  }
  if (plain.ends_with("_step") || plain.ends_with("_iteration") || plain.ends_with("/step") ||
      plain.ends_with("/global_step") || plain.ends_with("_iter")) {
    return Field::kStep;
  }
  return Field::kNone;
}

bool IsAside(std::string_view key) { return HasWordAside(Plain(key)); }

void Players::Add(std::string_view loss_key) {
  constexpr std::string_view kOne[] = {"g",     "gen",    "generator", "netg",
                                       "actor", "policy", "pg",        "pi"};
  constexpr std::string_view kOther[] = {
      "d", "disc", "discriminator", "netd", "dis", "critic", "value", "vf", "v"};
  const auto is = [](const auto& words, std::string_view word) {
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
  };
  const std::string plain = Plain(loss_key);
  for (size_t at = 0; at < plain.size();) {
    const size_t end = std::min(plain.find_first_of("_/. -", at), plain.size());
    const std::string_view word = std::string_view(plain).substr(at, end - at);
    if (is(kOne, word)) one = true;
    if (is(kOther, word)) other = true;
    if (is(kOne, word) || is(kOther, word)) return;
    at = end + 1;
  }
}

int RankOf(Field field, std::string_view key) {
  const std::string plain = Plain(key);
  if (field == Field::kStep) {
    if (EndsAsWord(plain, "global_step") || plain == "_step") return 3;
    if (IsCountOfBatch(plain)) return 1;
    return plain == "steps" || plain == "iterations" ? 0 : 2;
  }
  int rank = 0;
  if (field == Field::kLoss || field == Field::kEvalLoss) {
    static constexpr std::array<std::string_view, 8> kTotals{
        "loss",          "train_loss", "total_loss", "lm_loss",
        "training_loss", "train/loss", "loss/train", "loss/total"};
    std::string_view of = plain;
    for (const char* suffix : {"_step", "_epoch"}) {
      if (of.ends_with(suffix)) of.remove_suffix(std::string_view(suffix).size());
    }
    for (const std::string_view total : kTotals) {
      if (of == total || (total == "loss" && Last(of) == total)) {
        rank = 4;
      } else if (of.ends_with("/" + std::string(total)) || of.ends_with("_" + std::string(total))) {
        // "aux loss" ends with "loss" as well and is a component.
        rank = std::max(rank, total == "loss" ? 2 : 4);
      }
    }
    // "mean_loss", "full_loss_metric" before one of its parts.
    const bool whole = rank < 3 && AnyWord(plain, [](std::string_view word) {
                         return word == "total" || word == "mean" || word == "full" ||
                                word == "overall" || word == "sum" || word == "combined";
                       });
    if (whole) rank = 3;
  }
  if (field == Field::kGradNorm) {
    const std::string_view last = Last(plain);
    const bool total = last == "grad_norm" || last == "gnorm" || last == "gradient_norm" ||
                       plain.find("total") != std::string::npos ||
                       plain.find("global") != std::string::npos;
    rank = total ? 2 : 0;
  }
  if (plain.ends_with("_epoch")) --rank;
  return rank;
}

std::optional<double> NumberAt(std::string_view line, size_t& i) {
  size_t at = i;
  at += TypeBefore(line.substr(std::min(at, line.size())));
  const bool negative = at < line.size() && line[at] == '-';
  if (at < line.size() && (line[at] == '-' || line[at] == '+')) ++at;
  const auto ends_word = [&](size_t length) {
    const size_t end = at + length;
    if (end >= line.size()) return true;
    if (line[end] == '-') return end + 1 >= line.size() || !IsAlpha(line[end + 1]);
    return !IsAlpha(line[end]) && !IsDigit(line[end]) && line[end] != '_';
  };
  // from_chars takes the beginning of a word ("inf" of "InfoNCE") for a number.
  const bool digits = at < line.size() && (IsDigit(line[at]) || line[at] == '.');
  if (at < line.size() && (!digits || line.substr(at).starts_with("1.#"))) {
    const std::string word = LowerCase(line.substr(at, 9));
    for (const char* spelling : {"nan", "inf", "infinity", "1.#qnan", "1.#ind", "1.#inf"}) {
      const std::string_view s(spelling);
      if (!word.starts_with(s) || !ends_word(s.size())) continue;
      i = at + s.size();
      if (s.find("inf") != std::string_view::npos) return negative ? -kInf : kInf;
      return kNan;
    }
  }
  if (!digits) return std::nullopt;
  double value = 0;
  const char* const begin = line.data() + at;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), value);
  if (error == std::errc::invalid_argument) return std::nullopt;
  i = static_cast<size_t>(end - line.data());
  if (error == std::errc::result_out_of_range) {
    // Beyond double either way; "e-" tells which.
    const std::string_view written(begin, static_cast<size_t>(end - begin));
    const bool tiny = written.find("e-") != std::string_view::npos ||
                      written.find("E-") != std::string_view::npos;
    value = tiny ? 0.0 : kInf;
  }
  return negative ? -value : value;
}

std::optional<double> NumberOf(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  size_t at = 0;
  auto value = NumberAt(text, at);
  if (text.substr(at).starts_with(")")) ++at;  // "tensor(nan)"
  if (text.substr(at) == ".0") at += 2;        // "nan.0"
  return value && at == text.size() ? value : std::nullopt;
}

bool IsCount(const std::optional<double>& step) {
  return step && std::fabs(*step) < 9e15 && std::floor(*step) == *step;
}

}  // namespace mpnanny::imports
