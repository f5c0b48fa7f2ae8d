// The alerts of a run, in order of time, filtered; what several ranks told alike is one alert.
//
// Free functions; rows are streamed.
#ifndef MPNANNY_ENGINES_RUNS_ALERTS_H_
#define MPNANNY_ENGINES_RUNS_ALERTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/run_words.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {

struct AlertRow {
  int64_t alert_id = 0, step = 0;
  Word<Phase> phase;
  std::optional<int64_t> layer_id, kind;
  Word<AlertType> type;
  Word<Severity> severity;
  std::optional<double> value, threshold;
  std::optional<int64_t> producer;  // 1: its inputs were clean; 0: it only carries
  int64_t repeats = 1;
  std::optional<int64_t> last_step;
  std::string message;      // raw, at most 4,000 bytes
  std::string detail = {};  // JSON as written, at most 16,000 bytes; "" if there is none
  // Of merged ranks, those that told it, ascending; empty for one process.
  std::vector<int64_t> ranks = {};
  size_t part = 0;  // whose row this is: 0 the deciding rank's, i of Source::others[i - 1]
};

struct AlertFilter {
  std::vector<std::string> severities, types;     // empty: all; exact words
  std::optional<std::vector<int64_t>> layer_ids;  // sorted; absent: all, and alerts without a layer
  StepRange steps;

  bool Takes(const AlertRow& row) const;  // of these types and severities
  bool TakesLayer(const AlertRow& row) const;
};

// The SELECT that AlertOf() reads a row of, 14 columns; FROM and what follows it is the caller's.
std::string AlertColumns(const Database& database);
AlertRow AlertOf(const Statement& row);

// 0 for ERROR, 1 for WARNING, 2 for anything else: worst first.
int SeverityRank(const Word<Severity>& severity);

// When in a step it is: data 0, forward 1, … optimizer 4; 5 for anything else.
int PhaseRank(const Word<Phase>& phase);

// Calls `visit` in the order of (step, alert_id) until it returns false.
Result<void> ForEachAlert(const Source& source, const AlertFilter& filter,
                          const std::function<bool(const AlertRow&)>& visit);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_ALERTS_H_
