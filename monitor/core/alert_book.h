// The alerts of a run, with hysteresis: a condition that goes on holding is one row with `repeats`,
// not a row a step.
//
// Owns the open alerts. Used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_ALERT_BOOK_H_
#define MPNANNY_MONITOR_CORE_ALERT_BOOK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "monitor/core/rows.h"

namespace mpnanny {

// An alert of `type` with the type's own severity; the rest is for the caller to fill.
AlertRow MakeAlert(AlertType type, int64_t step, const Word<Phase>& phase, std::string message);

// An ERROR that says that a value is not finite.
bool IsValueError(const AlertRow& alert);

class AlertBook {
 public:
  // `quiet_steps`: how long a condition must not have held for its next occurrence to be a new
  // alert.
  explicit AlertBook(int64_t quiet_steps) : quiet_steps_(quiet_steps) {}

  // Places at which one condition may hold at a time and still be a row each: what goes wrong in a
  // whole model is not told a thousand times.
  static constexpr int kOpenRows = 16;

  // Takes what a condition found. kNew: a new alert, with its id set. kContinues: it continues an
  // open one, whose row is then in `alert` with its repeats and last step.
  enum class Outcome { kNew, kContinues, kLeftOut };
  Outcome Raise(AlertRow& alert);

  // The id of an alert that is kept elsewhere: ids are the run's.
  int64_t NextId() { return ++last_id_; }

  // Adds what is known now of the cause to an open value error that held at `step`: `text` to its
  // message, the members of `detail` to its detail, and `layer` as the producer where none was
  // known or the one that is `is_vague`. An alert that names a producer of `phase` comes first,
  // then one that only carries, then one without a layer; the oldest of each. The changed row;
  // nothing if there is none.
  std::optional<AlertRow> Explain(int64_t step, const Word<Phase>& phase, const std::string& text,
                                  const std::string& detail, int64_t layer,
                                  const std::function<bool(const AlertRow&)>& is_vague);

 private:
  using Key =
      std::tuple<AlertType, Severity, std::optional<Phase>, int64_t, std::optional<TensorKind>>;

  int64_t quiet_steps_;
  int64_t last_id_ = 0;
  std::map<Key, AlertRow> open_;  // newest of each type, place and severity
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ALERT_BOOK_H_
