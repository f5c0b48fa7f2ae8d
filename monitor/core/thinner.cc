#include "monitor/core/thinner.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>

#include "monitor/core/binder.h"

namespace mpnanny {
namespace {

constexpr double kLowWater = 0.9;  // of the limit: where a pass ends
constexpr double kUrgent = 1.02, kFull = 1.05;
constexpr double kIdleSeconds = 10;  // after a pass that could not free enough

}  // namespace

Result<int64_t> Thinner::UsedBytes() {
  MPN_TRY_ASSIGN(const auto pages, database_.Number("PRAGMA page_count"));
  MPN_TRY_ASSIGN(const auto free, database_.Number("PRAGMA freelist_count"));
  MPN_TRY_ASSIGN(const auto size, database_.Number("PRAGMA page_size"));
  return (pages - free) * size;
}

Result<void> Thinner::Look() {
  MPN_TRY_ASSIGN(const auto used, UsedBytes());
  const auto bytes = static_cast<double>(used), limit = static_cast<double>(max_bytes_);
  urgent_ = bytes > kUrgent * limit;
  full_ = bytes > kFull * limit;
  if (active_ || bytes <= limit || SteadySeconds() < idle_until_) return {};
  if (auto listed = ListRuns(); !listed) return listed;
  active_ = true;
  level_ = 1;
  run_ = 0;
  phase_ = Phase::kWindow;
  rows_deleted_ = 0;
  first_step_ = last_step_ = -1;
  return {};
}

Result<void> Thinner::ListRuns() {
  runs_.clear();
  MPN_TRY_ASSIGN(auto list,
                 database_.Prepared(
                     "SELECT run_id, (SELECT max(step) FROM step s WHERE s.run_id = run.run_id), "
                     "(SELECT count(*) FROM step s WHERE s.run_id = run.run_id AND s.flags & 64), "
                     "ended_at IS NULL FROM run ORDER BY run_id"));
  int code = 0;
  while ((code = sqlite3_step(list)) == SQLITE_ROW) {
    Run run;
    run.id = sqlite3_column_int64(list, 0);
    run.last_step = sqlite3_column_int64(list, 1);
    run.samples = sqlite3_column_int64(list, 2);
    if (sqlite3_column_int(list, 3) != 0) {  // it may still be written, by us or by others
      run.last_step -= kAlertSteps;          // an alert may yet come
      run.samples -= std::min(run.samples / 4, kWindow);
    }
    runs_.push_back(run);
  }
  sqlite3_reset(list);
  return code == SQLITE_DONE ? Result<void>() : database_.Failure("cannot be read");
}

Result<bool> Thinner::NextWindow() {
  for (; level_ <= kLevels; ++level_, run_ = 0) {
    for (; run_ < runs_.size(); ++run_) {
      auto filled = FillWindow(runs_[run_]);
      if (!filled || *filled) return filled;
    }
  }
  return false;
}

Result<bool> Thinner::FillWindow(const Run& run) {
  const Frontier from = frontiers_[{run.id, level_}];
  next_ = from;
  steps_.clear();
  kept_.clear();
  extremes_.clear();
  partly_.clear();
  at_ = 0;
  const int64_t stride = ThinningStride(level_), size = ThinningWindow(level_);
  const int64_t end = std::min(from.ordinal + size, run.samples);
  if (end - from.ordinal < stride) return false;  // wait for more
  MPN_TRY_ASSIGN(auto list, database_.Prepared("SELECT step FROM step WHERE run_id = ? AND step > "
                                               "? AND step <= ? AND flags & 64 ORDER BY "
                                               "step LIMIT ?"));
  Binder(list).Add(run.id).Add(from.step).Add(run.last_step).Add(end - from.ordinal);
  int code = 0;
  while ((code = sqlite3_step(list)) == SQLITE_ROW) {
    const int64_t step = sqlite3_column_int64(list, 0);
    steps_.push_back(step);
    if (next_.ordinal % stride == 0) kept_.insert(step);
    ++next_.ordinal;
    next_.step = step;
  }
  sqlite3_reset(list);
  if (code != SQLITE_DONE) return database_.Failure("cannot be read");
  if (static_cast<int64_t>(steps_.size()) < stride) return false;
  MPN_TRY_ASSIGN(
      auto alerts,
      database_.Prepared("SELECT step, coalesce(last_step, step) FROM alert WHERE run_id = ?"));
  Binder(alerts).Add(run.id);
  while ((code = sqlite3_step(alerts)) == SQLITE_ROW) {
    for (int column = 0; column < 2; ++column) {
      const int64_t step = sqlite3_column_int64(alerts, column);
      auto near = std::lower_bound(steps_.begin(), steps_.end(), step - kAlertSteps);
      for (; near != steps_.end() && *near <= step + kAlertSteps; ++near) kept_.insert(*near);
    }
  }
  sqlite3_reset(alerts);
  if (code != SQLITE_DONE) return database_.Failure("cannot be read");
  return true;
}

Result<void> Thinner::ScanStep(int64_t step) {
  MPN_TRY_ASSIGN(
      auto rows,
      database_.Prepared(
          "SELECT layer_id, kind, slot, absmax, coalesce(nan, 0) + coalesce(posinf, 0) + "
          "coalesce(neginf, 0) FROM tensor_stats WHERE run_id = ? AND step = ?"));
  Binder(rows).Add(runs_[run_].id).Add(step);
  int code = 0;
  while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
    SampleExtremes& found = extremes_[{sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1),
                                       sqlite3_column_int64(rows, 2)}];
    const bool known = sqlite3_column_type(rows, 3) != SQLITE_NULL;
    found.Add(step, known ? std::optional(sqlite3_column_double(rows, 3)) : std::nullopt,
              sqlite3_column_int64(rows, 4) > 0);
  }
  sqlite3_reset(rows);
  return code == SQLITE_DONE ? Result<void>() : database_.Failure("cannot be read");
}

Result<void> Thinner::DeleteStep(int64_t step) {
  const int64_t run = runs_[run_].id;
  if (!partly_.contains(step)) {
    MPN_TRY_ASSIGN(auto all,
                   database_.Prepared("DELETE FROM tensor_stats WHERE run_id = ? AND step = ?"));
    Binder(all).Add(run).Add(step);
    if (auto done = database_.Step(all); !done) return done;
    rows_deleted_ += sqlite3_changes64(sqlite3_db_handle(all));
    return {};
  }
  MPN_TRY_ASSIGN(
      auto rows,
      database_.Prepared(
          "SELECT layer_id, kind, slot FROM tensor_stats WHERE run_id = ?1 AND step = ?2"));
  Binder(rows).Add(run).Add(step);
  std::vector<Series> gone;
  int code = 0;
  while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
    const Series series{sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1),
                        sqlite3_column_int64(rows, 2)};
    if (!extremes_[series].Holds(step)) gone.push_back(series);
  }
  sqlite3_reset(rows);
  if (code != SQLITE_DONE) return database_.Failure("cannot be read");
  for (const auto& [layer, kind, slot] : gone) {
    MPN_TRY_ASSIGN(auto one, database_.Prepared("DELETE FROM tensor_stats WHERE run_id = ? AND "
                                                "step = ? AND layer_id = ? AND kind = ? AND "
                                                "slot = ?"));
    Binder(one).Add(run).Add(step).Add(layer).Add(kind).Add(slot);
    if (auto done = database_.Step(one); !done) return done;
    ++rows_deleted_;
  }
  return {};
}

Result<void> Thinner::EndWindow() {
  if (first_step_ < 0) first_step_ = steps_.front();
  last_step_ = std::max(last_step_, steps_.back());
  frontiers_[{runs_[run_].id, level_}] = next_;
  phase_ = Phase::kWindow;
  MPN_TRY_ASSIGN(const auto used, UsedBytes());
  if (static_cast<double>(used) < kLowWater * static_cast<double>(max_bytes_)) return EndPass();
  return {};
}

Result<void> Thinner::EndPass() {
  active_ = false;
  if (rows_deleted_ == 0) return {};
  EventRow event;
  event.at = UnixSeconds();
  event.type = "thinned";
  event.detail = "{\"rows\":" + std::to_string(rows_deleted_) +
                 ",\"one_in\":" + std::to_string(ThinningStride(std::min(level_, kLevels))) +
                 ",\"first_step\":" + std::to_string(first_step_) +
                 ",\"last_step\":" + std::to_string(last_step_) + "}";
  rows_deleted_ = 0;
  return database_.Insert(event);
}

Result<void> Thinner::Slice(double seconds) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(seconds));
  return database_.Transaction([&]() -> Result<void> {
    do {
      Result<void> done;
      if (phase_ == Phase::kWindow) {
        MPN_TRY_ASSIGN(const auto more, NextWindow());
        if (!more) {
          idle_until_ = SteadySeconds() + kIdleSeconds;
          return EndPass();
        }
        phase_ = Phase::kScan;
      } else if (at_ < steps_.size()) {
        const int64_t step = steps_[at_++];
        if (phase_ == Phase::kScan) {
          done = ScanStep(step);
        } else if (!kept_.contains(step)) {
          done = DeleteStep(step);
        }
      } else if (phase_ == Phase::kScan) {
        for (const auto& [series, found] : extremes_) {
          partly_.insert({found.largest_step, found.smallest_step, found.nonfinite_step});
        }
        phase_ = Phase::kDelete;
        at_ = 0;
      } else {
        done = EndWindow();
      }
      if (!done) return done;
    } while (active_ && std::chrono::steady_clock::now() < until);
    return {};
  });
}

}  // namespace mpnanny
