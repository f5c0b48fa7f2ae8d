// A Comparison as JSON and as text.
//
// Free functions.
#ifndef MPNANNY_ENGINES_COMPARISON_REPORT_H_
#define MPNANNY_ENGINES_COMPARISON_REPORT_H_

#include <string>

#include "base/json.h"
#include "engines/comparison/comparison.h"
#include "engines/runs/run.h"

namespace mpnanny::comparison {

// The tool's structuredContent, at most about `bytes`: layers, figures and settings are what is
// cut, and counted.
Json ComparisonJson(const runs::Source& a, const runs::Source& b, const Comparison& comparison,
                    const Diagnoses& diagnoses, size_t bytes);
Json ComparisonSchema();

// The same facts for people; made of the JSON, so that the two cannot differ.
std::string ComparisonText(const Json& json);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_REPORT_H_
