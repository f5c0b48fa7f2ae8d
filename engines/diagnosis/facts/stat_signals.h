// Which `stat:` signals of the case library a run's recorded figures fit.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_STAT_SIGNALS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_STAT_SIGNALS_H_

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engines/cases/case.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

// Collects hits from the rows of samples: one a signal, that whose value is greatest (for < and <=
// the least).
class StatSignals {
 public:
  // Both are borrowed and must outlive the object.
  StatSignals(const cases::CaseLibrary& library, runs::Layers& layers);
  ~StatSignals();
  Result<void> Offer(const runs::TensorRow& row);
  std::vector<StatHit> Take();

 private:
  class State;
  std::unique_ptr<State> state_;
};

// The signals over `step` columns, from rows of steps. One hit a signal, as above.
class StepSignals {
 public:
  explicit StepSignals(const cases::CaseLibrary& library);  // borrowed
  // The signals themselves: what has the same texts finds the same hits.
  static std::string Texts(const cases::CaseLibrary& library);
  void Offer(const runs::StepRow& row);
  std::vector<StatHit> Take();

 private:
  struct Watched {
    const cases::Signal* signal;
    std::optional<double> runs::StepRow::*figure;  // null: peak_memory
    bool least;                                    // of its values the least is told
    std::optional<StatHit> best = {};
  };
  std::vector<Watched> watched_;  // by text
};

// The same in a pass of its own over the steps of a run up to `last`.
Result<void> FindStepSignals(const runs::Source& source, int64_t last,
                             const cases::CaseLibrary& library, std::vector<StatHit>& hits);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_STAT_SIGNALS_H_
