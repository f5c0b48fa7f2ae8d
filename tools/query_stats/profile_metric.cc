#include "tools/query_stats/profile_metric.h"

#include <algorithm>
#include <cstddef>

#include "tools/query_stats/collector.h"

namespace mpnanny::query_stats {
namespace {

constexpr size_t kProfileRows = 100'000;
constexpr size_t kThoroughProfileRows = 6'000'000;
constexpr size_t kMostListed = 100'000;  // steps
constexpr size_t kLeastProfileSteps = 6;

bool Stopped(const runs::Source& source, const Error& error) {
  return error.kind == ErrorKind::kDeadlineExceeded && source.database->time_is_up() &&
         !source.database->cancel().stop_requested();
}

// Every step of the range that has a profile, one seek each.
Result<std::vector<int64_t>> ProfileSteps(runs::ShadowProfile& profile,
                                          const runs::StepRange& range) {
  std::vector<int64_t> steps;
  for (int64_t from = range.first; steps.size() < kMostListed;) {
    MPN_TRY_ASSIGN(auto step, profile.StepFrom(from));
    if (!step || *step > range.last) break;
    steps.push_back(*step);
    if (*step == range.last) break;
    from = *step + 1;
  }
  return steps;
}

std::vector<int64_t> Spread(const std::vector<int64_t>& steps, size_t most) {
  if (steps.size() <= most) return steps;
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(steps[i * (steps.size() - 1) / (most - 1)]);
  return chosen;
}

}  // namespace

Result<Answer> ReadProfileMetric(const runs::Source& source, const Question& question,
                                 const Blocks& blocks) {
  Answer answer;
  MPN_TRY_ASSIGN(auto profile, runs::ShadowProfile::Open(source));
  auto steps = ProfileSteps(profile, question.steps);
  if (!steps && !Stopped(source, steps.error())) return steps.error();
  if (!steps) {
    answer.out_of_time = true;
    return answer;
  }
  if (steps->empty()) return answer;
  MPN_TRY_ASSIGN(auto last, profile.At(steps->back()));
  const size_t rows = question.thorough ? kThoroughProfileRows : kProfileRows;
  const size_t most = std::max(kLeastProfileSteps, rows / std::max<size_t>(1, last.size()));
  const std::vector<int64_t> chosen = Spread(*steps, most);
  answer.steps.all = chosen.size() == steps->size();
  answer.steps.sampled = static_cast<int64_t>(steps->size());

  Collector collector(question, blocks);
  for (const int64_t step : chosen) {
    MPN_TRY(source.database->cancel().Check());
    auto read = profile.At(step);
    if (!read && !Stopped(source, read.error())) return read.error();
    if (!read) {
      answer.out_of_time = true;
      break;
    }
    collector.Add(*read);
    collector.EndStep(step);
    answer.steps.steps.push_back(step);
  }
  answer.steps.looked_at = static_cast<int64_t>(answer.steps.steps.size());
  answer.series = collector.Take();
  return answer;
}

}  // namespace mpnanny::query_stats
