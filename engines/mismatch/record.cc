#include "engines/mismatch/record.h"

#include <cmath>
#include <limits>
#include <map>

#include "base/json.h"
#include "engines/mismatch/ranks.h"
#include "engines/runs/events.h"
#include "engines/runs/steps.h"

namespace mpnanny::mismatch {
namespace {

double NumberIn(const Json& object, const char* key, double otherwise = 0) {
  const Json& value = ValueAt(object, {key});
  return value.is_number() ? value.get<double>() : otherwise;
}

int64_t WholeIn(const Json& object, const char* key) {
  const Json& value = ValueAt(object, {key});
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

std::vector<double> NumbersOf(const Json& row) {
  std::vector<double> numbers;
  if (!row.is_array()) return numbers;
  for (const Json& each : row) numbers.push_back(each.is_number() ? each.get<double>() : 0);
  return numbers;
}

void ReadScalars(const Json& detail, LogprobMismatch& into) {
  into.tokens = WholeIn(detail, "tokens");
  into.bad_trainer = WholeIn(detail, "bad_trainer");
  into.bad_rollout = WholeIn(detail, "bad_rollout");
  into.mean = NumberIn(detail, "mean");
  into.mean_abs = NumberIn(detail, "mean_abs");
  into.rms = NumberIn(detail, "rms");
  // What is left out was beyond all numbers.
  into.k3 = NumberIn(detail, "k3", std::numeric_limits<double>::infinity());
  into.median = NumberIn(detail, "median");
  into.p99 = NumberIn(detail, "p99");
  into.p999 = NumberIn(detail, "p999");
  into.largest = NumberIn(detail, "largest");
  into.beyond = NumberIn(detail, "beyond");
  into.equal = NumberIn(detail, "equal");
  into.positive = NumberIn(detail, "positive");
  into.trainer = NumberIn(detail, "trainer");
  into.rollout = NumberIn(detail, "rollout");
  into.exposure = NumberIn(detail, "exposure");
  into.rms_before = NumberIn(detail, "rms_before", kUnknownFigure);
  into.rms_after = NumberIn(detail, "rms_after", kUnknownFigure);
  into.trainer_grid = WholeIn(detail, "trainer_grid");
  into.rollout_grid = WholeIn(detail, "rollout_grid");
  into.temperature = NumberIn(detail, "temperature", kUnknownFigure);
  into.temperature_rest = NumberIn(detail, "temperature_rest", kUnknownFigure);
  into.rows = WholeIn(detail, "rows");
  into.row_least = NumberIn(detail, "row_least", kUnknownFigure);
  into.row_median = NumberIn(detail, "row_median", kUnknownFigure);
  into.row_largest = NumberIn(detail, "row_largest", kUnknownFigure);
  const Json& worst = ValueAt(detail, {"worst"});
  for (const Json& each : worst.is_array() ? worst : Json::array()) {
    const auto row = NumbersOf(each);
    if (row.size() != 5) continue;
    into.worst.push_back({static_cast<int64_t>(row[0]), static_cast<int64_t>(row[1]),
                          static_cast<int64_t>(row[2]), row[3], row[4]});
  }
}

void ReadGroups(const Json& detail, LogprobMismatch& into) {
  const int64_t by = WholeIn(detail, "by");
  const Json& groups = ValueAt(detail, {"groups"});
  if (by < 0 || by >= kMismatchGroupings || !groups.is_array()) return;
  for (const Json& each : groups) {
    const auto row = NumbersOf(each);
    if (row.size() != 7 || row[1] < 1) continue;
    into.groups.push_back({static_cast<MismatchBy>(by), static_cast<int64_t>(row[0]),
                           static_cast<int64_t>(row[1]), row[2], row[3], row[4], row[5], row[6]});
  }
}

void ReadHead(const Json& detail, Call& into) {
  const Json& tries = ValueAt(detail, {"tries"});
  for (const Json& each : tries.is_array() ? tries : Json::array()) {
    if (!each.is_array() || each.size() != 4 || !each[0].is_string()) continue;
    const auto row = NumbersOf(each);
    into.head.push_back({each[0].get<std::string>().substr(0, 40), row[1], row[2], row[3]});
  }
}

Call CallOf(const runs::EventRow& row, const Json& detail) {
  Call call;
  call.step = row.step.value_or(0);
  if (const Json& own = ValueAt(detail, {"update"}); own.is_number_integer())
    call.own = own.get<int64_t>();
  if (const Json& synced = ValueAt(detail, {"synced"}); synced.is_boolean())
    call.synced = synced.get<bool>();
  ReadScalars(detail, call.figures);
  return call;
}

Result<void> ReadRates(const runs::Source& source, std::vector<Call>& calls) {
  std::multimap<int64_t, Call*> by_step;
  for (Call& call : calls) by_step.emplace(call.step, &call);
  if (by_step.empty()) return {};
  const runs::StepRange range{by_step.begin()->first, by_step.rbegin()->first};
  return runs::ForEachStep(source, range, [&](const runs::StepRow& step) {
    const auto [first, last] = by_step.equal_range(step.step);
    for (auto it = first; it != last; ++it) it->second->lr = step.lr;
    return true;
  });
}

Result<Calls> ReadOne(const runs::Source& source) {
  Calls found;
  std::map<int64_t, size_t> by_number;  // of the call -> its place
  bool full = false;
  MPN_TRY(runs::ForEachEvent(source, [&](const runs::EventRow& row) {
    if (!row.type.starts_with("logprob_")) return true;
    const auto detail = ParseJson(row.detail);
    if (!detail || !detail->is_object()) return true;
    const int64_t number = WholeIn(*detail, "call");
    if (row.type == "logprob_mismatch") {
      full = found.calls.size() >= kMostCalls;
      if (full) return false;
      by_number[number] = found.calls.size();
      found.calls.push_back(CallOf(row, *detail));
      return true;
    }
    const auto place = by_number.find(number);
    if (place == by_number.end()) return true;
    Call& call = found.calls[place->second];
    if (row.type == "logprob_groups") ReadGroups(*detail, call.figures);
    if (row.type == "logprob_head") ReadHead(*detail, call);
    return true;
  }));
  if (full) found.notes.push_back("Only the first 100,000 calls of log_mismatch are read.");
  return found;
}

// How far a rank's calls are apart in all; what is not finite is further than any number.
RankSize SizeOfRank(int64_t rank, const Calls& calls) {
  RankSize size{.rank = rank, .calls = calls.calls.size()};
  double squares = 0, tokens = 0;
  for (const Call& call : calls.calls) {
    const auto n = static_cast<double>(call.figures.tokens);
    squares += call.figures.rms * call.figures.rms * n;
    tokens += n;
    if (call.figures.bad_trainer + call.figures.bad_rollout > 0)
      size.rms = std::numeric_limits<double>::infinity();
  }
  if (tokens > 0 && std::isfinite(size.rms)) size.rms = std::sqrt(squares / tokens);
  return size;
}

}  // namespace

Result<Calls> ReadCalls(const runs::Source& source) {
  MPN_TRY_ASSIGN(auto furthest, ReadOne(source));
  std::vector<RankSize> ranks;
  if (!furthest.calls.empty()) ranks.push_back(SizeOfRank(source.run.rank, furthest));
  RankSize shown = ranks.empty() ? RankSize{} : ranks.front();
  // Each rank calls with tokens of its own, or one for all.
  for (const runs::OtherRank& other : source.others) {
    if (ranks.size() == kMostRanks) {
      furthest.notes.push_back("The calls of the first 256 ranks are read.");
      break;
    }
    runs::Source one;
    one.database = other.database;
    one.run = other.run;
    MPN_TRY_ASSIGN(auto calls, ReadOne(one));
    if (calls.calls.empty()) continue;
    ranks.push_back(SizeOfRank(other.run.rank, calls));
    if (ranks.size() > 1 && ranks.back().rms <= shown.rms) continue;
    shown = ranks.back();
    furthest = std::move(calls);
  }
  if (ranks.size() > 1) furthest.notes.push_back(RanksText(shown, ranks));
  furthest.ranks = std::move(ranks);
  MPN_TRY(ReadRates(source, furthest.calls));
  return furthest;
}

}  // namespace mpnanny::mismatch
