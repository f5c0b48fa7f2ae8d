#include "engines/runs/import/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMaxNames = 20'000;
constexpr int64_t kMaxValues = 40'000'000;
constexpr size_t kNameBytes = 300;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kFieldNames[] = {
    "", "epoch", "step", "loss", "gradient norm", "loss scale", "learning rate", "evaluation loss"};

}  // namespace

Series::Series(Import& into) : into_(into) {
  sqlite3_exec(into.recorder.handle(),
               "CREATE TABLE scalar (step INTEGER, name INTEGER, at REAL, value REAL,"
               " PRIMARY KEY (step, name)) WITHOUT ROWID",
               nullptr, nullptr, nullptr);
  insert_ = Writer(into.recorder.handle(), "INSERT OR REPLACE INTO scalar VALUES (?1,?2,?3,?4)");
}

void Series::Add(std::string_view name, int64_t step, double value, std::optional<double> at) {
  ++values_;
  name = name.substr(0, kNameBytes);
  auto it = known_.find(name);
  if (it == known_.end()) {
    if (known_.size() >= kMaxNames) {
      ++left_out_;
      return;
    }
    Known known;
    known.id = static_cast<int64_t>(known_.size());
    known.name = std::string(name);
    const std::string key = LowerCase(name);
    known.field = FieldOf(key);
    if (known.field == Field::kStep || known.field == Field::kEpoch) known.field = Field::kNone;
    known.rank = RankOf(known.field, key);
    known.last_step = step;
    known.figure = into_.recorder.figures().IdOf(name);
    it = known_.emplace(known.name, std::move(known)).first;
  }
  Known& known = it->second;
  if (known.field != Field::kNone && values_ - left_out_ > kMaxValues) {
    ++left_out_;
    return;
  }
  if (known.count > 0) {
    if (step > known.last_step) {
      known.stride = step - known.last_step;
    } else if (known.last_step - step > 2 * known.stride) {
      GoBack(known, step);
    }
  }
  known.last_step = step;
  ++known.count;
  if (known.figure) into_.recorder.figures().Put(step, {*known.figure, value});
  if (known.field == Field::kNone) return;
  known.finite_seen = known.finite_seen || std::isfinite(value);
  if (at && std::isfinite(*at)) {
    if (!into_.started_at || *at < *into_.started_at) into_.started_at = at;
    if (!into_.ended_at || *at > *into_.ended_at) into_.ended_at = at;
  }
  insert_ << step << known.id << at << std::optional(value);
  insert_.Run();
}

void Series::GoBack(Known& known, int64_t step) {
  if (known.figure) into_.recorder.figures().GoBack(*known.figure, step);
  if (known.field == Field::kNone) return;
  ++went_back_;
  Writer drop(into_.recorder.handle(), "DELETE FROM scalar WHERE step>=?1 AND name=?2");
  drop << step << known.id;
  drop.Run();
}

void Series::Finish() {
  std::map<Field, const Known*> best;
  for (const auto& [name, known] : known_) {
    if (known.field == Field::kNone) continue;
    const Known*& chosen = best[known.field];
    if (!chosen || known.rank > chosen->rank ||
        (known.rank == chosen->rank && known.count > chosen->count)) {
      chosen = &known;
    }
  }
  std::map<int64_t, const Known*> by_id;
  std::vector<std::string> read;
  for (const auto& [field, known] : best) {
    by_id[known->id] = known;
    read.push_back(std::string(kFieldNames[static_cast<size_t>(field)]) + " from \"" +
                   EscapeControl(known->name, 80) + "\"");
  }
  WriteSteps(by_id);
  if (!read.empty()) into_.notes.push_back("Read: " + Join(read, ", ") + ".");
  if (went_back_ > 0) {
    into_.notes.push_back(
        "Step numbers go back to an earlier one (a resumed run): what the later values stand for "
        "replaced what was there before.");
  }
  if (left_out_ > 0) {
    into_.notes.push_back(std::to_string(left_out_) +
                          " values beyond what one run may have were "
                          "left out.");
  }
}

void Series::WriteSteps(const std::map<int64_t, const Known*>& chosen) {
  std::map<int64_t, const Known*> losses;
  for (const auto& [name, known] : known_) {
    if (known.field == Field::kLoss) losses[known.id] = &known;
  }
  Writer rows(into_.recorder.handle(), "SELECT step, name, at, value FROM scalar ORDER BY step");
  while (rows.NextRow() && !into_.recorder.Full() && !into_.recorder.cancel().stop_requested()) {
    // SQLite keeps a NaN as NULL.
    const double value = rows.Real(3).value_or(kNan);
    StepFigures figures;
    const auto it = chosen.find(rows.Int(1));
    if (it == chosen.end()) {
      // A part of the loss that was finite once and is no longer.
      const auto part = losses.find(rows.Int(1));
      if (part == losses.end() || std::isfinite(value) || !part->second->finite_seen) continue;
      figures.bad_part = value;
    } else {
      switch (it->second->field) {
        case Field::kLoss:
          figures.loss = value;
          break;
        case Field::kGradNorm:
          figures.grad_norm = value;
          break;
        case Field::kScale:
          figures.scale = value;
          break;
        case Field::kEvalLoss:
          into_.recorder.PutEvaluation(rows.Int(0), it->second->name, value);
          continue;
        default:
          figures.lr = value;
      }
    }
    figures.at = rows.Real(2);
    into_.recorder.Put(rows.Int(0), figures);
  }
  rows.Reset();
  sqlite3_exec(into_.recorder.handle(), "DROP TABLE scalar", nullptr, nullptr, nullptr);
}

}  // namespace mpnanny::imports
