// Sentences of findings about gradients, parameters and states (alert type PROTOCOL).
//
// Free functions without state. Texts out of the file come back escaped.
#ifndef MPNANNY_ENGINES_RUNS_RELATION_TEXT_H_
#define MPNANNY_ENGINES_RUNS_RELATION_TEXT_H_

#include <string>
#include <string_view>

#include "engines/runs/sentence.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {

bool IsRelation(const Word<FindingKind>& kind);

// One or two sentences; `place`: "file:line" as it is shown, "" if the finding has none.
Sentence RelationSentence(const ShadowFinding& finding, const std::string& place);

// "parameters that no optimizer holds": what a kind is called in a line.
std::string_view RelationNoun(const Word<FindingKind>& kind);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RELATION_TEXT_H_
