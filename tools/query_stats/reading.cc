#include "tools/query_stats/reading.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tools/query_stats/collector.h"
#include "tools/query_stats/profile_metric.h"
#include "tools/query_stats/step_metric.h"

namespace mpnanny::query_stats {
namespace {

// What an answer may cost. A cell is one seek (a few microseconds of a large database), a row of a
// whole sample a fraction of one.
constexpr size_t kFewLayers = 16;  // up to here cells are read, beyond it samples
constexpr size_t kCells = 240;
constexpr size_t kExactCells = 500;  // of runs so short all cells are read
constexpr size_t kRows = 7'000;
constexpr size_t kExactRows = 100'000;
constexpr size_t kThoroughCells = 400'000;
constexpr size_t kThoroughRows = 6'000'000;
constexpr size_t kLeastSteps = 6;
constexpr size_t kAlertSamples = 3;  // alerts of which whole samples are read
constexpr size_t kCandidates = 8;    // series whose order is told again from more steps
constexpr size_t kGapSteps = 16;     // samples read around an extreme that stood between gaps

std::vector<std::string_view> ColumnsOf(const Metric& metric) {
  if (metric.needs.empty()) return {"absmax"};  // the counts alone; an empty list would be all
  return metric.needs;
}

bool TimeIsUp(const runs::Source& source, const Error& error) {
  return error.kind == ErrorKind::kDeadlineExceeded && source.database->time_is_up() &&
         !source.database->cancel().stop_requested();
}

// Reads one step, a whole sample or the layers named. False if it has no row of these.
Result<bool> ReadStep(runs::SampleReader& reader, int64_t step, const std::vector<int64_t>* layers,
                      Collector& collector) {
  bool any = false;
  const auto add = [&](Result<const std::vector<runs::TensorRow>*> rows) -> Result<void> {
    if (!rows) return rows.error();
    any |= !(*rows)->empty();
    collector.Add(**rows);
    return {};
  };
  if (layers == nullptr) {
    MPN_TRY(add(reader.Sample(step)));
  } else {
    for (const int64_t layer : *layers) {
      MPN_TRY(add(reader.Layer(step, layer)));
    }
  }
  if (any) collector.EndStep(step);
  return any;
}

// Reads the chosen steps into `collector` and makes them those that were there. True if the time
// limit ended it.
Result<bool> ReadSteps(const runs::Source& source, runs::SampleReader& reader, ChosenSteps& chosen,
                       const std::vector<int64_t>* layers, Collector& collector) {
  std::vector<int64_t> found;
  bool stopped = false;
  for (size_t i = 0; i < chosen.steps.size() && !stopped; ++i) {
    MPN_TRY(source.database->cancel().Check());
    int64_t step = chosen.steps[i];
    auto read = ReadStep(reader, step, layers, collector);
    if (read && !*read && !chosen.all) {
      auto recorded = Recorded(reader, chosen, i);
      if (recorded && !*recorded) continue;
      if (!recorded) {
        read = recorded.error();
      } else if (**recorded != step) {
        step = **recorded;
        read = ReadStep(reader, step, layers, collector);
      }
    }
    if (read) found.push_back(step);
    stopped = source.database->time_is_up();
    if (!read && !TimeIsUp(source, read.error())) return read.error();
  }
  chosen.looked_at += static_cast<int64_t>(found.size());
  chosen.steps = std::move(found);
  return stopped;
}

double RankValue(const Question& question, const Series& series) {
  constexpr double kLast = -std::numeric_limits<double>::infinity();
  const bool smallest =
      question.order == Order::kSmallest ||
      (question.order == Order::kWorst && question.metric->worse == Worse::kSmaller);
  if (question.order == Order::kGrowth) {
    const auto growth = Growth(series.points);
    return growth ? *growth : kLast;
  }
  // Nothing but NaN or Inf is neither the largest nor the smallest; a note counts them.
  if (!series.worst) return kLast;
  if (smallest) return -series.least->value;
  if (question.order == Order::kWorst && question.metric->worse == Worse::kFartherFromZero) {
    return std::fabs(series.worst->value);
  }
  return series.largest->value;
}

void Sort(const Question& question, std::vector<Series>::iterator begin,
          std::vector<Series>::iterator end) {
  if (question.order == Order::kModel) return;  // keys are in the order of layers already
  std::vector<std::pair<double, size_t>> order;
  for (auto it = begin; it != end; ++it) {
    order.emplace_back(RankValue(question, *it), static_cast<size_t>(it - begin));
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Series> sorted;
  sorted.reserve(order.size());
  for (const auto& [value, place] : order) {
    sorted.push_back(std::move(begin[static_cast<ptrdiff_t>(place)]));
  }
  std::move(sorted.begin(), sorted.end(), begin);
}

// How many steps of these layers are worth reading.
size_t StepBudget(size_t layers, size_t cells) {
  return std::max(kLeastSteps, cells / std::max<size_t>(1, layers));
}

// Steps next to the extremes that stand between gaps, and to where it first was not finite.
Result<std::vector<int64_t>> StepsNearExtremes(runs::SampleReader& reader,
                                               const std::vector<Series>& series,
                                               const std::vector<int64_t>& steps, size_t most) {
  std::set<int64_t> places;
  for (const Series& each : series) {
    if (each.worst) places.insert(each.worst->step);
    if (each.first_nonfinite) places.insert(*each.first_nonfinite);
  }
  std::vector<int64_t> more;
  for (const int64_t place : places) {
    if (more.size() >= most) break;
    const auto at = std::lower_bound(steps.begin(), steps.end(), place);
    for (const bool after : {false, true}) {
      if (after ? at + 1 >= steps.end() : at == steps.begin()) continue;
      const int64_t from = after ? *at : *(at - 1), to = after ? *(at + 1) : *at;
      MPN_TRY_ASSIGN(auto between, StepsBetween(reader, from, to, kGapSteps));
      more.insert(more.end(), between.begin(), between.end());
    }
  }
  std::sort(more.begin(), more.end());
  more.erase(std::unique(more.begin(), more.end()), more.end());
  if (more.size() > most) more.resize(most);
  return more;
}

// Series of a few layers, by seeks.
Result<Answer> ReadFewLayers(const runs::Source& source, const Question& question,
                             const Blocks& blocks, const std::vector<int64_t>& layers) {
  MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source, ColumnsOf(*question.metric)));
  MPN_TRY_ASSIGN(auto alerts, AlertSteps(source, question.steps, question.layers));
  const size_t exact = StepBudget(layers.size(), question.thorough ? kThoroughCells : kExactCells);
  const size_t most = question.thorough ? exact : StepBudget(layers.size(), kCells);
  Answer answer;
  auto steps = ChooseSteps(reader, source, question.steps, exact, most, alerts);
  if (!steps) return steps.error();
  answer.steps = *std::move(steps);
  Collector collector(question, blocks);
  auto stopped = ReadSteps(source, reader, answer.steps, &layers, collector);
  if (!stopped) return stopped.error();
  answer.out_of_time = *stopped;
  answer.series = collector.Take();
  if (*stopped || answer.steps.all || question.thorough) return answer;

  auto more = StepsNearExtremes(reader, answer.series, answer.steps.steps,
                                StepBudget(layers.size(), kCells / 4));
  if (!more) return more.error();
  Collector near(question, blocks);
  ChosenSteps closer;
  closer.steps = *std::move(more);
  stopped = ReadSteps(source, reader, closer, &layers, near);
  if (!stopped) return stopped.error();
  answer.out_of_time = *stopped;
  for (const Series& series : near.Take()) {
    const auto same =
        std::lower_bound(answer.series.begin(), answer.series.end(), series,
                         [](const Series& x, const Series& y) { return x.key < y.key; });
    if (same != answer.series.end() && same->key == series.key) {
      *same = Merged(*same, series, question.metric->worse);
    }
  }
  answer.steps.looked_at += closer.looked_at;
  answer.steps.steps.insert(answer.steps.steps.end(), closer.steps.begin(), closer.steps.end());
  std::sort(answer.steps.steps.begin(), answer.steps.steps.end());
  return answer;
}

Result<Answer> ReadManyLayers(const runs::Source& source, const Question& question,
                              const Blocks& blocks) {
  MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source, ColumnsOf(*question.metric)));
  Answer answer;
  MPN_TRY_ASSIGN(auto last, runs::LastSampledSteps(source, question.steps, 1));
  if (last.empty()) return answer;
  MPN_TRY_ASSIGN(auto rows, reader.Sample(last.front()));
  const size_t a_sample = std::max<size_t>(1, rows->size());
  const size_t exact = (question.thorough ? kThoroughRows : kExactRows) / a_sample;
  const size_t most = question.thorough ? exact : kRows / a_sample;
  MPN_TRY_ASSIGN(auto alerts, AlertSteps(source, question.steps, question.layers));
  // A few of them: each costs a sample or two.
  if (alerts.size() > kAlertSamples) {
    const size_t all = alerts.size();
    for (size_t i = 0; i < kAlertSamples; ++i) {
      alerts[i] = alerts[i * (all - 1) / (kAlertSamples - 1)];
    }
    alerts.resize(kAlertSamples);
  }
  auto steps = ChooseSteps(reader, source, question.steps, std::max(exact, kLeastSteps),
                           std::max(most, kLeastSteps), alerts);
  if (!steps) return steps.error();
  answer.steps = *std::move(steps);
  Collector collector(question, blocks);
  MPN_TRY_ASSIGN(auto stopped, ReadSteps(source, reader, answer.steps, nullptr, collector));
  answer.out_of_time = stopped;
  answer.series = collector.Take();
  return answer;
}

}  // namespace

Result<Answer> AnswerQuestion(const runs::Source& source, const Question& question) {
  if (question.metric->of_step) return ReadStepMetric(source, question);
  Blocks blocks;
  if (question.grouping == Grouping::kBlock) {
    auto read = ReadBlocks(source, question.layers);
    if (!read) return read.error();
    blocks = *std::move(read);
  }
  if (question.metric->of_profile) {
    auto profile = ReadProfileMetric(source, question, blocks);
    if (!profile) return profile.error();
    Sort(question, profile->series.begin(), profile->series.end());
    profile->blocks = std::move(blocks);
    return profile;
  }
  const bool few = !question.layers.all && question.layers.ids.size() <= kFewLayers;
  auto answer = few ? ReadFewLayers(source, question, blocks, question.layers.ids)
                    : ReadManyLayers(source, question, blocks);
  if (!answer) return answer.error();
  Sort(question, answer->series.begin(), answer->series.end());
  const bool by_layer =
      question.grouping == Grouping::kLayer || question.grouping == Grouping::kSlot;
  if (!few && by_layer && !answer->steps.all && !answer->out_of_time &&
      question.order != Order::kModel) {
    // The order of the first ones is told again from more steps: a layer that is second by a few
    // samples may be first by many.
    std::vector<size_t> head(std::min(answer->series.size(), kCandidates));
    for (size_t i = 0; i < head.size(); ++i) head[i] = i;
    MPN_TRY(LookCloser(source, question, head, *answer));
    Sort(question, answer->series.begin(),
         answer->series.begin() + static_cast<ptrdiff_t>(head.size()));
  }
  answer->blocks = std::move(blocks);
  return answer;
}

Result<void> LookCloser(const runs::Source& source, const Question& question,
                        const std::vector<size_t>& places, Answer& answer) {
  std::map<SeriesKey, size_t> wanted;
  Question about = question;
  about.layers = {};
  about.layers.all = false;
  for (const size_t place : places) {
    wanted[answer.series[place].key] = place;
    about.layers.ids.push_back(answer.series[place].key.group);
  }
  std::vector<int64_t>& ids = about.layers.ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  MPN_TRY_ASSIGN(auto closer, ReadFewLayers(source, about, {}, ids));
  for (const Series& series : closer.series) {
    const auto found = wanted.find(series.key);
    if (found == wanted.end()) continue;
    Series& old = answer.series[found->second];
    old = Merged(old, series, question.metric->worse);
  }
  answer.out_of_time |= closer.out_of_time;
  return {};
}

}  // namespace mpnanny::query_stats
