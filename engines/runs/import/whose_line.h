// Whose figures a line holds: the training's, an evaluation's, or those of a run that is over.
//
// Pure functions on text from outside; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_WHOSE_LINE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_WHOSE_LINE_H_

#include <string>
#include <string_view>

namespace mpnanny::imports {

// True if the line tells of an evaluation, whose loss is not the training's. `lower`: the line in
// lower case.
bool IsEvaluation(const std::string& lower);

// What a tracker prints of a run that is over: "wandb:   policy_loss 0.07954".
bool IsOfSummary(std::string_view line);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_WHOSE_LINE_H_
