// A line of llm.c's own log: "s:250 trl:6.5 lr:0.0006 norm:1.25" of a step, "s:250 tel:6.75" of an
// evaluation.
//
// A pure function on text from outside. Safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_LLM_C_LINE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_LLM_C_LINE_H_

#include <optional>
#include <string_view>

#include "engines/runs/import/log_line.h"

namespace mpnanny::imports {

// nullopt: it is no such line.
std::optional<Figures> OfLlmC(std::string_view line);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_LLM_C_LINE_H_
