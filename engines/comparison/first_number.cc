#include "engines/comparison/first_number.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "engines/comparison/noise.h"
#include "engines/runs/import/field.h"
#include "engines/runs/named_figures.h"
#include "engines/runs/printed.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

using runs::FigureSeries;

constexpr int64_t kMostRead = 200'000;  // steps of a run
// A factor that is one and the same: the middle half of the steps lies this near (relative).
constexpr double kOneFactor = 0.01;
constexpr size_t kLeastOfFactor = 5;
constexpr double kNoFactor = 1.02;  // nearer to 1 it is none

// The figures of a run's own steps, under the names that answers have for them.
Result<std::map<std::string, FigureSeries>> StepSeries(const runs::Source& source,
                                                       const runs::StepRange& range) {
  std::map<std::string, FigureSeries> series;
  int64_t rows = 0;
  const auto add = [&](const char* name, int64_t step, const std::optional<double>& value) {
    if (value) series[name].emplace_back(step, *value);
  };
  MPN_TRY(runs::ForEachStep(source, range, [&](const runs::StepRow& row) {
    add("loss", row.step, row.loss);
    add("grad_norm", row.step, row.grad_norm);
    add("lr", row.step, row.lr);
    add("loss_scale", row.step, row.loss_scale);
    return ++rows < kMostRead;
  }));
  return series;
}

// What a clock or a meter gives, and counts of what was done.
bool IsOfMachine(const std::string& lower) {
  for (const char* part :
       {"time", "second", "elapsed", "duration", "throughput", "tokens/s", "samples/s", "it/s",
        "per_sec", "flops", "memory", "speed", "step_avg"}) {
    if (lower.find(part) != std::string::npos) return true;
  }
  for (size_t at = 0; at < lower.size();) {
    const size_t end = std::min(lower.find_first_of("_/ .-()", at), lower.size());
    const std::string_view word = std::string_view(lower).substr(at, end - at);
    for (const char* unit : {"sec", "secs", "s", "ms", "dt", "tps", "wps", "ups", "mfu", "gpu",
                             "cpu", "gb", "gib", "mem", "eta", "perf", "rank"}) {
      if (word == unit) return true;
    }
    at = end + 1;
  }
  return false;
}

// The name that a log's own figure of a step is read from: the best of its field.
std::map<imports::Field, std::string> NamesOfSteps(const std::vector<runs::NamedSeries>& named) {
  std::map<imports::Field, std::string> best;
  for (const runs::NamedSeries& series : named) {
    const std::string lower = LowerCase(series.name);
    const imports::Field field = imports::FieldOf(lower);
    std::string& name = best[field];
    if (name.empty() || imports::RankOf(field, lower) > imports::RankOf(field, LowerCase(name))) {
      name = series.name;
    }
  }
  best.erase(imports::Field::kNone);
  best.erase(imports::Field::kEvalLoss);
  return best;
}

// Whether it is one of the steps' own figures once more, under a name that does not tell.
bool IsOfSteps(const FigureSeries& series, const std::map<std::string, FigureSeries>& of_steps) {
  return std::any_of(of_steps.begin(), of_steps.end(),
                     [&](const auto& each) { return each.second == series; });
}

// The series that the two have in common: the steps' own, then what logs print beside them.
struct PairOfSeries {
  std::string name;
  NumberKind kind;
  const FigureSeries *a, *b;
};

NumberParting PartingOf(const PairOfSeries& pair, const runs::StepRange& range) {
  const runs::Printed print_a(*pair.a), print_b(*pair.b);
  NumberParting parting;
  parting.name = pair.name;
  parting.kind = pair.kind;
  parting.printed_a = print_a.Words();
  parting.printed_b = print_b.Words();
  std::vector<double> ratios;
  size_t j = 0;
  for (const auto& [step, of_a] : *pair.a) {
    if (step < range.first || step > range.last) continue;
    while (j < pair.b->size() && (*pair.b)[j].first < step) ++j;
    if (j == pair.b->size()) break;
    if ((*pair.b)[j].first != step) continue;
    const double of_b = (*pair.b)[j].second;
    ++parting.common;
    if (!parting.parts_at) {
      if (runs::EqualAsPrinted(of_a, print_a, of_b, print_b)) {
        ++parting.equal;
        parting.equal_up_to = step;
        continue;
      }
      parting.parts_at = step;
      parting.a = of_a;
      parting.b = of_b;
    }
    if (of_a > 0 && of_b > 0 && std::isfinite(of_a) && std::isfinite(of_b)) {
      ratios.push_back(of_b / of_a);
    }
  }
  if (ratios.size() < kLeastOfFactor) return parting;
  std::vector<double> sorted = ratios;
  std::sort(sorted.begin(), sorted.end());
  const double middle = sorted[sorted.size() / 2];
  const double spread = sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4];
  const bool apart = std::max(middle, 1 / middle) > kNoFactor;
  if (apart && spread <= kOneFactor * middle) {
    parting.factor = middle;
    parting.factor_steps = static_cast<int64_t>(ratios.size());
  }
  return parting;
}

}  // namespace

Result<FirstNumber> FindFirstNumber(const runs::Source& a, const runs::Source& b,
                                    const runs::StepRange& range) {
  FirstNumber found;
  // Between two recorded runs tensors tell more.
  if (a.format.empty() && b.format.empty()) return found;
  MPN_TRY_ASSIGN(const auto steps_a, StepSeries(a, range));
  MPN_TRY_ASSIGN(const auto steps_b, StepSeries(b, range));
  MPN_TRY_ASSIGN(const auto named_a, runs::ReadAllFigures(a));
  MPN_TRY_ASSIGN(const auto named_b, runs::ReadAllFigures(b));
  std::vector<PairOfSeries> pairs;
  for (const auto& [name, kind] :
       {std::pair("lr", NumberKind::kRate), std::pair("loss_scale", NumberKind::kScale),
        std::pair("loss", NumberKind::kLoss), std::pair("grad_norm", NumberKind::kNorm)}) {
    const auto of_a = steps_a.find(name), of_b = steps_b.find(name);
    if (of_a == steps_a.end() || of_b == steps_b.end()) continue;
    pairs.push_back({name, kind, &of_a->second, &of_b->second});
  }
  const auto own = NamesOfSteps(named_a);
  for (const runs::NamedSeries& of_a : named_a) {
    const std::string lower = LowerCase(of_a.name);
    const imports::Field field = imports::FieldOf(lower);
    const auto of_step = own.find(field);
    const bool is_own = of_step != own.end() && of_step->second == of_a.name;
    if (is_own || field == imports::Field::kEpoch || IsOfMachine(lower)) continue;
    const auto of_b =
        std::find_if(named_b.begin(), named_b.end(),
                     [&](const runs::NamedSeries& each) { return each.name == of_a.name; });
    if (of_b == named_b.end() || IsOfSteps(of_a.values, steps_a)) continue;
    pairs.push_back({of_a.name, NumberKind::kOther, &of_a.values, &of_b->values});
  }
  for (const PairOfSeries& pair : pairs) {
    NumberParting parting = PartingOf(pair, range);
    if (parting.common > 0) found.numbers.push_back(std::move(parting));
  }
  std::stable_sort(found.numbers.begin(), found.numbers.end(),
                   [](const NumberParting& x, const NumberParting& y) {
                     const auto place = [](const NumberParting& each) {
                       return std::pair(each.parts_at.value_or(INT64_MAX), each.kind);
                     };
                     return place(x) < place(y);
                   });
  found.sentence = FirstNumberText(found.numbers);
  return found;
}

}  // namespace mpnanny::comparison
