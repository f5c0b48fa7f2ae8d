// Reads the text log of a run that had no monitor: lines of "key=value", "key: value" or JSON-like
// pairs with a loss, a gradient norm, a loss scale, a learning rate and a step.
//
// The text is data from outside: bounded, never executed, nothing of it is taken for more than a
// number. What other formats need (event files, CSV, trainer states) can fill the same rows.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_LOG_READER_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_LOG_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "tools/cases/case.h"
#include "tools/diagnose_run/facts.h"
#include "tools/runs/steps.h"

namespace mpnanny::diagnose_run {

inline constexpr uint64_t kMaxLogBytes = 64u << 20;

struct LogRows {
  std::vector<runs::StepRow> steps;  // ascending; flags are set from the values
  int64_t lines = 0, lines_used = 0;
  bool steps_counted = false;    // no step number was found: rows are numbered from 0
  bool steps_restarted = false;  // the step counter began anew: rows are numbered on
  std::vector<LogHit> hits;      // `log:` signals of the library that a line fits
  std::string precision;         // if a line says so; "" otherwise
};

// Keys are found by name, whatever stands before them ("train/loss", "lm loss", "grad_norm",
// "loss_scale", "lr", "iteration 12/ 5000"). nan and inf are understood in any spelling. Fails only
// when the call is stopped.
Result<LogRows> ReadLog(std::string_view text, const cases::CaseLibrary& library,
                        const CancelToken& cancel);

// The facts of a log: what a monitor's run would have from its steps alone.
Facts GatherLog(const LogRows& log, const cases::CaseLibrary& library);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_LOG_READER_H_
