// Lines of the training's code around those that a diagnosis names.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_EXCERPTS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_EXCERPTS_H_

#include <string>
#include <vector>

#include "engines/check/engine.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// "pkg/model.py:62" in its parts; line 0 where there is none.
struct Place {
  std::string file;  // name without folders: a run and a check may see different roots
  int line = 0;
};
Place ParsePlace(const std::string& source);

// What the answer names, the leading findings' lines first, then the onset's; raw "file:line".
std::vector<std::string> NamedLines(const Facts& facts);

// Fills facts.excerpts from the sources that hold the named lines: five lines before and after.
void AddExcerpts(const std::vector<check::Source>& sources, Facts& facts);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_EXCERPTS_H_
