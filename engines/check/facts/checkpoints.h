// What training writes into its checkpoints: the states of optimizers and of loss scalers.
//
// Free functions without state; everything borrows the FileFacts.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_CHECKPOINTS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_CHECKPOINTS_H_

#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

// An optimizer's state on its way into a checkpoint.
struct SavedOptimizer {
  NodeId state = kNoNode;  // optimizer.state_dict()
  NodeId function = 0;     // where it stands
};

// Those that are put into a dict, given to something that saves, or returned by a function that is
// called for it; in order of the text. A state that is only kept for a moment is none.
std::vector<SavedOptimizer> FindSavedOptimizers(const FileFacts& facts);

// Calls of state_dict() (or of another method of that kind) on something that is called *scaler*.
std::vector<NodeId> ScalerStateCalls(const FileFacts& facts, std::string_view method);

// True if the file saves a scaler's state, gives a scaler to what saves, or leaves saving to a
// framework that does it.
bool KnowsScalerState(const FileFacts& facts);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_CHECKPOINTS_H_
