// Rows of the verdict's table for what only a log tells: faults that it reports in words, figures
// that stand still, and success, which a healthy run has to show there. They are asked of logs
// alone.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_VERDICT_LOG_ROWS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_VERDICT_LOG_ROWS_H_

#include "engines/diagnosis/verdict/ruling.h"

namespace mpnanny::diagnosis {

// It ended with an exception, without memory or without room on a disk.
Answer EndedInWords(const Asked& asked);
// Of the length of what a policy writes next to nothing is left.
Answer AnswersGone(const Asked& asked);
Answer SpokenNonFinite(const Asked& asked);
// The loss left its level several times, and rose above where it had begun.
Answer Swings(const Asked& asked);
Answer LossStands(const Asked& asked);
Answer ScoresStand(const Asked& asked);
Answer NoGradient(const Asked& asked);
// Nothing is wrong, and nothing shows success.
Answer NotEarned(const Asked& asked);

// A log without a training loss whose evaluations or scores improve.
bool ShowsNoLossButProgress(const Facts& facts);
// What improved, beside "healthy".
runs::Sentence ProgressText(const Facts& facts);
// "the loss", or `the loss "hard_loss_metric"`.
runs::Sentence LossName(const Facts& facts);
// "Of 4 runs in this file this is the worst, the 2nd (lines 10 to 90)."
runs::Sentence OfFileText(const OfFile& of);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_VERDICT_LOG_ROWS_H_
