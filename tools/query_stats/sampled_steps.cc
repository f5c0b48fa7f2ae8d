#include "tools/query_stats/sampled_steps.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace mpnanny::query_stats {
namespace {

constexpr size_t kMaxAlertGroups = 40;
constexpr int64_t kErrorsAGroup = 40;

void SortUnique(std::vector<int64_t>& steps) {
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
}

// The distance of two steps; the range of a hostile file may be all of int64.
uint64_t Distance(int64_t from, int64_t to) {
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

// first + (last - first) * part / parts, without overflow.
int64_t Between(int64_t first, int64_t last, size_t part, size_t parts) {
  const uint64_t span = Distance(first, last);
  const uint64_t step = span / parts * part + span % parts * part / parts;
  return static_cast<int64_t>(static_cast<uint64_t>(first) + step);
}

// Lists the range's steps one by one, `most` at most; false in `whole` if there are more.
Result<std::vector<int64_t>> List(runs::SampleReader& reader, int64_t first, int64_t last,
                                  size_t most, bool* whole) {
  std::vector<int64_t> steps;
  *whole = true;
  for (int64_t from = first;;) {
    MPN_TRY_ASSIGN(auto step, reader.StepFrom(from));
    if (!step || *step > last) return steps;
    if (steps.size() == most) {
      *whole = false;
      return steps;
    }
    steps.push_back(*step);
    if (*step == last) return steps;
    from = *step + 1;
  }
}

}  // namespace

Result<ChosenSteps> ChooseSteps(runs::SampleReader& reader, const runs::Source& source,
                                const runs::StepRange& range, size_t exact, size_t most,
                                const std::vector<int64_t>& also) {
  ChosenSteps chosen;
  MPN_TRY_ASSIGN(auto first, reader.StepFrom(range.first));
  if (!first || *first > range.last) return chosen;
  MPN_TRY_ASSIGN(auto last, runs::LastSampledSteps(source, range, 1));
  if (last.empty()) return chosen;
  const int64_t begin = *first, end = last.front();
  const uint64_t interval =
      static_cast<uint64_t>(std::max<int64_t>(1, source.run.trace_interval.value_or(1)));
  const uint64_t expected = Distance(begin, end) / interval + 1;
  if (!source.run.trace_interval || expected <= 2 * exact) {
    bool whole = false;
    auto steps = List(reader, begin, end, exact, &whole);
    if (!steps) return steps.error();
    if (whole) {
      chosen.steps = *std::move(steps);
      chosen.sampled = static_cast<int64_t>(chosen.steps.size());
      return chosen;
    }
  }
  chosen.all = false;
  chosen.steps = {begin, end};
  // Samples lie at multiples of the interval; a seek to look whether one is there would cost as
  // much as reading it.
  const auto snapped = [&](int64_t step) {
    const auto width = static_cast<int64_t>(interval);
    return std::max(begin, step >= 0 ? step - step % width : step);
  };
  for (size_t i = 1; i + 1 < most; ++i) {
    chosen.steps.push_back(snapped(Between(begin, end, i, most - 1)));
  }
  for (const int64_t special : also) {
    if (special < begin || special > end) continue;
    chosen.steps.push_back(special);
    chosen.steps.push_back(snapped(special - 1));
  }
  SortUnique(chosen.steps);
  chosen.sampled = std::max(static_cast<int64_t>(chosen.steps.size()),
                            static_cast<int64_t>(std::min<uint64_t>(expected, INT64_MAX)));
  return chosen;
}

Result<std::optional<int64_t>> Recorded(runs::SampleReader& reader, const ChosenSteps& chosen,
                                        size_t place) {
  auto step = reader.StepFrom(chosen.steps[place]);
  if (!step || !*step) return step;
  if (place + 1 < chosen.steps.size() && **step >= chosen.steps[place + 1]) {
    return std::optional<int64_t>();
  }
  return step;
}

Result<std::vector<int64_t>> StepsBetween(runs::SampleReader& reader, int64_t after, int64_t before,
                                          size_t most) {
  if (after >= before || Distance(after, before) < 2) return std::vector<int64_t>();
  bool whole = false;
  return List(reader, after + 1, before - 1, most, &whole);
}

Result<std::vector<int64_t>> AlertSteps(const runs::Source& source, const runs::StepRange& range,
                                        const LayerChoice& layers) {
  // Each statement is a seek or a short walk on the index (run_id, severity, type, step).
  // The next type of a severity, and the next severity: a comparison of both at once would walk
  // through all alerts of the severity.
  MPN_TRY_ASSIGN(auto next_type,
                 source.database->Prepare(
                     "SELECT severity, type FROM alert WHERE run_id=?1 AND severity=?2 AND type>?3 "
                     "ORDER BY type LIMIT 1"));
  MPN_TRY_ASSIGN(
      auto next_severity,
      source.database->Prepare("SELECT severity, type FROM alert WHERE run_id=?1 AND severity>?2 "
                               "ORDER BY severity, type LIMIT 1"));
  MPN_TRY_ASSIGN(auto last,
                 source.database->Prepare(
                     "SELECT step FROM alert WHERE run_id=?1 AND severity=?2 AND type=?3 AND "
                     "step BETWEEN ?4 AND ?5 ORDER BY step DESC LIMIT 1"));
  MPN_TRY_ASSIGN(auto some,
                 source.database->Prepare("SELECT step, layer_id, last_step FROM alert WHERE "
                                          "run_id=?1 AND severity=?2 AND type=?3 AND "
                                          "step BETWEEN ?4 AND ?5 ORDER BY step LIMIT ?6"));
  const int64_t run = *source.run.handle.run_id;
  std::vector<int64_t> steps;
  std::string severity, type;
  for (size_t group = 0; group < kMaxAlertGroups; ++group) {
    bool found = false;
    for (runs::Statement* groups : {&next_type, &next_severity}) {
      groups->Bind(1, run).Bind(2, severity);
      if (groups == &next_type) groups->Bind(3, type);
      MPN_TRY_ASSIGN(auto row, groups->Next());
      found = row;
      if (found) {
        severity = groups->TextOr(0);
        type = groups->TextOr(1);
      }
      groups->Reset();
      if (found) break;
    }
    if (!found) break;
    last.Bind(1, run).Bind(2, severity).Bind(3, type).Bind(4, range.first).Bind(5, range.last);
    MPN_TRY_ASSIGN(auto newest, last.Next());
    if (newest) steps.push_back(last.IntOr(0, 0));
    last.Reset();
    const bool error = severity == NameOf(Severity::kError);
    some.Bind(1, run).Bind(2, severity).Bind(3, type).Bind(4, range.first).Bind(5, range.last);
    some.Bind(6, error && !layers.all ? kErrorsAGroup : int64_t{1});
    bool first = true;
    while (true) {
      MPN_TRY_ASSIGN(auto alert, some.Next());
      if (!alert) break;
      if (first || layers.Holds(some.IntOr(1, -1))) {
        steps.push_back(some.IntOr(0, 0));
        steps.push_back(some.IntOr(2, steps.back()));
      }
      first = false;
    }
    some.Reset();
  }
  std::erase_if(steps, [&](int64_t step) { return step < range.first || step > range.last; });
  SortUnique(steps);
  return steps;
}

}  // namespace mpnanny::query_stats
