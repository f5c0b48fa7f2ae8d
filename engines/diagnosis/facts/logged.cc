#include "engines/diagnosis/facts/logged.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "engines/diagnosis/facts/median.h"
#include "engines/runs/import/field.h"
#include "engines/runs/printed.h"

namespace mpnanny::diagnosis {
namespace {

using imports::Field;
using runs::FigureSeries;
using runs::NamedSeries;

// A mean of ten batches, or a rounded print, is nearer than this.
constexpr double kPerplexityApart = 0.02;
constexpr size_t kLeastTogether = 5;
constexpr double kMostSteps = 0.8;  // of them show it

constexpr size_t kLeastResting = 30;
constexpr double kNearGuess = 0.003;   // relative: between ln(K) and the mean of the losses there
constexpr double kNearOften = 0.001;   // … of a number of classes that the log does not name
constexpr double kBegins = 1.5;        // a model that knows nothing begins not far above ln(K)
constexpr double kFlat = 0.02;         // relative scatter of a loss that rests
constexpr double kRestingShare = 0.5;  // of all losses, to the end

constexpr size_t kLeastOnGrid = 12;
constexpr double kLog10Chance = -6;
constexpr size_t kGridLookedAt = 2000;
constexpr size_t kMostGrids = 2;

bool IsPerplexity(const std::string& lower) {
  for (const char* word : {"ppl", "perplexity"}) {
    const size_t at = lower.rfind(word);
    if (at == std::string::npos) continue;
    const bool starts = at == 0 || !std::isalpha(static_cast<unsigned char>(lower[at - 1]));
    const size_t end = at + std::string_view(word).size();
    if (starts && end == lower.size()) return true;
  }
  return false;
}

bool IsLoss(const NamedSeries& series) {
  const Field field = imports::FieldOf(LowerCase(series.name));
  return field == Field::kLoss || field == Field::kEvalLoss;
}

// What stands before the last word: "val/" of "val/ppl" and of "val/loss".
std::string SplitOf(const std::string& lower) {
  const size_t at = lower.find_last_of("/_ .-");
  return at == std::string::npos ? "" : lower.substr(0, at);
}

struct Together {
  int64_t step = 0;
  double perplexity = 0, loss = 0, allowed = 0;
};

std::vector<Together> StepsOfBoth(const FigureSeries& perplexity, const FigureSeries& loss) {
  const runs::Printed print_p(perplexity), print_l(loss);
  std::vector<Together> both;
  size_t j = 0;
  for (const auto& [step, value] : perplexity) {
    while (j < loss.size() && loss[j].first < step) ++j;
    if (j == loss.size()) break;
    if (loss[j].first != step || !(value > 0) || !std::isfinite(value) ||
        !std::isfinite(loss[j].second)) {
      continue;
    }
    const double of_print = print_l.Unit(loss[j].second) + print_p.Unit(value) / value;
    both.push_back({step, value, loss[j].second, of_print});
  }
  return both;
}

// How many of the steps have ln(perplexity) = loss * base.
double ShareThatFits(const std::vector<Together>& both, double base) {
  const auto fit = std::count_if(both.begin(), both.end(), [&](const Together& t) {
    return std::fabs(std::log(t.perplexity) - t.loss * base) <=
           std::max(kPerplexityApart, 2 * t.allowed);
  });
  return static_cast<double>(fit) / static_cast<double>(both.size());
}

void RelatePerplexity(const NamedSeries& perplexity, const std::vector<NamedSeries>& figures,
                      std::vector<PerplexityApart>& found) {
  const std::string lower = LowerCase(perplexity.name);
  const bool aside = imports::IsAside(lower);
  const NamedSeries* nearest = nullptr;
  std::vector<Together> of_nearest;
  for (const NamedSeries& loss : figures) {
    const std::string key = LowerCase(loss.name);
    if (!IsLoss(loss) || imports::IsAside(key) != aside) continue;
    auto both = StepsOfBoth(perplexity.values, loss.values);
    if (both.size() < kLeastTogether) continue;
    // Of one of the losses it is the exponential: in nats, or in bits as fairseq has them.
    if (ShareThatFits(both, 1) > 1 - kMostSteps ||
        ShareThatFits(both, std::log(2.0)) > 1 - kMostSteps) {
      return;
    }
    const bool same_split = SplitOf(key) == SplitOf(lower);
    if (same_split && (!nearest || imports::RankOf(Field::kLoss, key) >
                                       imports::RankOf(Field::kLoss, LowerCase(nearest->name)))) {
      nearest = &loss;
      of_nearest = std::move(both);
    }
  }
  if (!nearest) return;
  std::vector<double> apart;
  for (const Together& t : of_nearest) apart.push_back(std::log(t.perplexity) - t.loss);
  const Together& last = of_nearest.back();
  found.push_back({perplexity.name, nearest->name, static_cast<int64_t>(of_nearest.size()),
                   last.step, last.perplexity, last.loss, Median(apart)});
}

// Numbers of classes that a log gives a name to ("vocab_size"), then those that are often used.
std::vector<std::pair<int64_t, std::string>> ClassesOf(const std::vector<NamedSeries>& figures) {
  std::vector<std::pair<int64_t, std::string>> classes;
  for (const NamedSeries& series : figures) {
    const std::string lower = LowerCase(series.name);
    const double value = series.values.back().second;
    const bool names = lower.find("vocab") != std::string::npos ||
                       lower.find("num_classes") != std::string::npos ||
                       lower.find("num_labels") != std::string::npos;
    if (names && value >= 2 && value < 1e7 && std::floor(value) == value) {
      classes.emplace_back(static_cast<int64_t>(value), series.name);
    }
  }
  // Two classes, digits, CIFAR-100, ImageNet; the vocabularies of GPT-2 (also padded), Llama 2 and
  // 3, Qwen, BERT.
  for (const int64_t often :
       {2, 10, 100, 1000, 50257, 50304, 32000, 128256, 151936, 151643, 30522}) {
    classes.emplace_back(often, "");
  }
  return classes;
}

std::optional<RestsAtGuess> RelateGuess(const NamedSeries& loss,
                                        const std::vector<NamedSeries>& figures) {
  const FigureSeries& values = loss.values;
  if (values.size() < kLeastResting) return std::nullopt;
  const double least =
      std::min_element(values.begin(), values.end(), [](const auto& x, const auto& y) {
        return x.second < y.second;
      })->second;
  for (const auto& [classes, name] : ClassesOf(figures)) {
    const double guess = std::log(static_cast<double>(classes));
    const double near = (name.empty() ? kNearOften : kNearGuess) * guess;
    // What was below it had learned something.
    if (!(least >= guess * (1 - 3 * kFlat)) || values.front().second > kBegins * guess) continue;
    // From the end back as long as it lies near.
    size_t first = values.size();
    while (first > 0 && std::fabs(values[first - 1].second - guess) <= 3 * kFlat * guess) --first;
    const size_t resting = values.size() - first;
    if (resting < kLeastResting ||
        static_cast<double>(resting) < kRestingShare * static_cast<double>(values.size())) {
      continue;
    }
    // Where it came through from above, or still moves, it does not rest.
    double sum = 0, squares = 0, early = 0;
    for (size_t i = first; i < values.size(); ++i) {
      sum += values[i].second;
      squares += values[i].second * values[i].second;
      if (i < first + resting / 2) early += values[i].second;
    }
    const double n = static_cast<double>(resting), mean = sum / n;
    const double scatter = std::sqrt(std::max(0.0, squares / n - mean * mean));
    const double half = std::floor(n / 2);
    const double drift = (sum - early) / (n - half) - early / half;
    if (std::fabs(mean - guess) > near || scatter > kFlat * guess || std::fabs(drift) > near) {
      continue;
    }
    return RestsAtGuess{loss.name,           classes, name,   static_cast<int64_t>(resting),
                        values[first].first, mean,    scatter};
  }
  return std::nullopt;
}

// One step of a format with so many digits of fraction, at a value.
double StepOf(double value, int fraction, int least_exponent) {
  const int exponent = std::max(std::ilogb(value), least_exponent);
  return std::ldexp(1.0, exponent - fraction);
}

std::optional<OnGrid> RelateGrid(const NamedSeries& series, bool bf16) {
  const runs::Printed print(series.values);
  const int fraction = bf16 ? 7 : 10, least = bf16 ? -126 : -14;
  std::set<double> seen;
  double log10_chance = 0;
  OnGrid grid{series.name, bf16, 0, 0, 0, 0};
  for (const auto& [step, value] : series.values) {
    if (!std::isfinite(value) || value == 0 || seen.size() >= kGridLookedAt) continue;
    if (!seen.insert(std::fabs(value)).second) continue;
    const double magnitude = std::fabs(value);
    const double one = StepOf(magnitude, fraction, least);
    // A print in full still went through 32 bits on its way, which hold both formats exactly.
    const double unit = std::max(print.Unit(magnitude), magnitude * 0x1p-24);
    const double nearest = std::round(magnitude / one) * one;
    if (std::fabs(magnitude - nearest) > 0.5 * unit * (1 + 1e-6)) return std::nullopt;
    // Of so many printed values between two of the format one is on it.
    const double chance = std::min(1.0, unit / one);
    log10_chance += std::log10(chance);
    // Round numbers of few digits (0.5, 2) are on every grid, and prove nothing.
    if (runs::DigitsOf(magnitude).significant <= 2) log10_chance -= std::log10(chance);
    ++grid.values;
    if (std::fabs(value) > grid.example) {
      grid.example = magnitude;
      grid.next = nearest + one;
    }
  }
  if (static_cast<size_t>(grid.values) < kLeastOnGrid) return std::nullopt;
  // Each name is tried in two formats.
  grid.log10_chance = log10_chance + std::log10(2.0);
  return grid.log10_chance < kLog10Chance ? std::optional(grid) : std::nullopt;
}

}  // namespace

LoggedRelations RelateLogged(const std::vector<NamedSeries>& figures) {
  LoggedRelations found;
  const NamedSeries* loss = nullptr;  // the training's
  for (const NamedSeries& series : figures) {
    const std::string lower = LowerCase(series.name);
    if (IsPerplexity(lower)) RelatePerplexity(series, figures, found.perplexities);
    const Field field = imports::FieldOf(lower);
    if (field == Field::kLoss &&
        (!loss || imports::RankOf(field, lower) > imports::RankOf(field, LowerCase(loss->name)))) {
      loss = &series;
    }
    if ((field == Field::kLoss || field == Field::kEvalLoss || field == Field::kGradNorm) &&
        found.grids.size() < kMostGrids) {
      auto grid = RelateGrid(series, /*bf16=*/true);
      if (!grid) grid = RelateGrid(series, /*bf16=*/false);
      if (grid) found.grids.push_back(*std::move(grid));
    }
  }
  if (loss) found.guess = RelateGuess(*loss, figures);
  return found;
}

}  // namespace mpnanny::diagnosis
