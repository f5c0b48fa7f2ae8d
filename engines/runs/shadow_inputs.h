// What went into the operator of a finding, in words.
//
// Free functions without state. Texts out of the file come back escaped.
#ifndef MPNANNY_ENGINES_RUNS_SHADOW_INPUTS_H_
#define MPNANNY_ENGINES_RUNS_SHADOW_INPUTS_H_

#include <string>
#include <string_view>

#include "engines/runs/sentence.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {

// "What went into the first such element: 0. What goes in comes from utils.py:56 (division).";
// empty where neither is known.
Sentence InputsText(const ShadowFinding& finding);

// A path's end, which is what tells files apart.
std::string ShownPlace(std::string_view source);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SHADOW_INPUTS_H_
