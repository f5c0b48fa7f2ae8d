#include "tools/query_stats/step_metric.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engines/runs/step_reader.h"

namespace mpnanny::query_stats {
namespace {

constexpr uint64_t kExactSteps = 10'000;  // of runs so short every step is read
constexpr uint64_t kThoroughSteps = 5'000'000;
constexpr size_t kSteps = 900;
constexpr uint64_t kGap = 2'500;  // steps read next to an extreme
constexpr size_t kPointsKept = 20'000;
constexpr int64_t kRowsBetweenChecks = 4096;

class Reading {
 public:
  Reading(const runs::Source& source, const Question& question, Answer& answer)
      : source_(source), question_(question), answer_(answer) {}

  Result<void> All(const runs::StepRange& range) {
    auto read = runs::ForEachStep(source_, range, [&](const runs::StepRow& row) {
      if (++rows_ % kRowsBetweenChecks == 0 && source_.database->time_is_up()) {
        answer_.out_of_time = true;
        return false;
      }
      Add(row);
      return true;
    });
    if (!read && read.error().kind == ErrorKind::kDeadlineExceeded &&
        !source_.database->cancel().stop_requested()) {
      answer_.out_of_time = true;
      return {};
    }
    return read;
  }

  Result<void> Some(runs::StepReader& reader, int64_t first, uint64_t span) {
    MPN_TRY_ASSIGN(auto alerts, AlertSteps(source_, question_.steps, {}));
    std::vector<int64_t> targets;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t parts = kSteps - 1;
      targets.push_back(static_cast<int64_t>(static_cast<uint64_t>(first) + span / parts * i +
                                             span % parts * i / parts));
    }
    for (const int64_t step : alerts) {
      if (step > question_.steps.first) targets.push_back(step - 1);
      targets.push_back(step);
    }
    std::map<int64_t, runs::StepRow> rows;
    for (const int64_t target : targets) {
      MPN_TRY(source_.database->cancel().Check());
      MPN_TRY_ASSIGN(auto row, reader.From(target));
      if (row && row->step <= question_.steps.last) rows.emplace(row->step, *row);
    }
    MPN_TRY(AddNearExtremes(rows));
    for (const auto& [step, row] : rows) Add(row);
    return {};
  }

 private:
  void Add(const runs::StepRow& row) {
    ++answer_.steps.looked_at;
    Series& series = answer_.series.front();
    const std::optional<double> value = question_.metric->of_step(row);
    if (value) {
      series.Add({row.step, *value, !std::isfinite(*value), -1}, question_.metric->worse,
                 kPointsKept);
    } else {
      ++series.not_known;
    }
  }

  // Every step between the neighbours of the worst value, and of the first non-finite one.
  Result<void> AddNearExtremes(std::map<int64_t, runs::StepRow>& rows) {
    std::optional<int64_t> worst, bad;
    double worst_value = 0;
    for (const auto& [step, row] : rows) {
      const std::optional<double> value = question_.metric->of_step(row);
      if (!value) continue;
      if (!std::isfinite(*value)) {
        if (!bad) bad = step;
      } else if (!worst || IsWorse(question_.metric->worse, *value, worst_value)) {
        worst = step;
        worst_value = *value;
      }
    }
    for (const auto& place : {worst, bad}) {
      if (!place) continue;
      const auto at = rows.find(*place);
      const int64_t from = at == rows.begin() ? *place : std::prev(at)->first;
      const int64_t to = std::next(at) == rows.end() ? *place : std::next(at)->first;
      if (static_cast<uint64_t>(to) - static_cast<uint64_t>(from) > 2 * kGap) continue;
      MPN_TRY(runs::ForEachStep(source_, {from, to}, [&](const runs::StepRow& row) {
        rows.emplace(row.step, row);
        return true;
      }));
    }
    return {};
  }

  const runs::Source& source_;
  const Question& question_;
  Answer& answer_;
  int64_t rows_ = 0;
};

// A log's steps may lie far apart: how many there are between, if the first ones do and there are
// at most kExactSteps; else "many".
Result<uint64_t> CountIfSparse(const runs::Source& source, int64_t begin, int64_t end) {
  constexpr uint64_t kProbe = 200;
  uint64_t rows = 0;
  bool many = false;
  MPN_TRY(runs::ForEachStep(source, {begin, end}, [&](const runs::StepRow& row) {
    ++rows;
    const uint64_t gone = static_cast<uint64_t>(row.step) - static_cast<uint64_t>(begin);
    many = rows > kExactSteps || (rows == kProbe && gone < 5 * kProbe);
    return !many;
  }));
  return many ? UINT64_MAX : rows;
}

}  // namespace

Result<Answer> ReadStepMetric(const runs::Source& source, const Question& question) {
  Answer answer;
  MPN_TRY_ASSIGN(auto reader, runs::StepReader::Create(source));
  MPN_TRY_ASSIGN(auto first, reader.From(question.steps.first));
  MPN_TRY_ASSIGN(auto last, reader.UpTo(question.steps.last));
  if (!first || !last || first->step > *last) return answer;

  const int64_t begin = first->step, end = *last;
  const uint64_t span = static_cast<uint64_t>(end) - static_cast<uint64_t>(begin);
  answer.series.emplace_back();
  Reading reading(source, question, answer);
  uint64_t steps = span < INT64_MAX ? span + 1 : INT64_MAX;
  if (steps > kExactSteps) {
    MPN_TRY_ASSIGN(auto counted, CountIfSparse(source, begin, end));
    steps = std::min(steps, counted);
  }
  answer.steps.all = steps <= (question.thorough ? kThoroughSteps : kExactSteps);
  MPN_TRY(answer.steps.all ? reading.All({begin, end}) : reading.Some(reader, begin, span));
  answer.steps.sampled = answer.steps.all ? answer.steps.looked_at : static_cast<int64_t>(steps);
  answer.steps.steps = {begin, end};
  if (answer.series.front().points.empty()) answer.series.clear();
  return answer;
}

}  // namespace mpnanny::query_stats
