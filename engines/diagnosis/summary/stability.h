// Whether the numbers of a run are sound, and why: the rules behind run_summary's `stable` and
// `reasons`.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_STABILITY_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_STABILITY_H_

#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/sentence.h"

namespace mpnanny::summary {

// Of a run whose process heard one.
inline constexpr char kEndedBySignal[] =
    "The training process was ended by a signal (Ctrl-C, a time limit, a scheduler).";

// Loss scale, judged. Start-up: a scaler begins high and halves until gradients fit; that costs at
// most this many steps (from 2^16 down to 1) and is no fault.
enum class ScaleState { kNone, kHealthy, kDeclining, kCollapsed };
inline constexpr int64_t kStartupSkips = 16;

// Of the skipped steps, those in which the scaler looked for its scale at the beginning; 0 where it
// has none, or where the row is longer than any search.
int64_t SearchSkips(const Summary& summary);

// " (3 while the scale was searched at the start, 2 later)", for behind a number of skipped steps;
// "" where none belongs to that search.
runs::Sentence SkipsApart(const Summary& summary);
ScaleState JudgeScale(const Summary& summary);

// True if more steps were skipped than the search for a scale costs: its start-up and about one
// step a growth interval (2,000 steps by default; 200 leaves room for shorter ones).
bool TooManySkips(const Summary& summary);

// True if, without a scaler that is known, gradients were not finite in more steps than a search
// for a loss scale costs, or still are at the end.
bool TooManyBadGradients(const Summary& summary);

// That some were not finite and were left out, as a sentence; there must be some.
runs::Sentence DiscardedText(const Summary& summary);

// Below so many losses the windows that its start and its end are told from overlap.
inline constexpr int64_t kLossesForTrend = 40;
// The loss ends at a multiple of where it began and of its least value.
bool LossRose(const Summary& summary);

// Fills `stable` and `reasons`. Where the diagnosis has judged the whole run, its verdict decides
// and its headline is the first reason. How the run ended is told in the reasons but does not
// decide: a job that was stopped from outside may have been sound.
void JudgeStability(const runs::Run& run, Summary& summary);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_STABILITY_H_
