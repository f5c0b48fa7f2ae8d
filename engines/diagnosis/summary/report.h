// A Summary as JSON and as text: shared by the tool and the resource.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_REPORT_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_REPORT_H_

#include <string>

#include "base/json.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/run.h"

namespace mpnanny::summary {

// The tool's structuredContent, at most about `bytes`: alerts and environment are what is cut, and
// counted.
Json SummaryJson(const runs::Source& source, const Summary& summary, size_t bytes);
Json SummarySchema();

// The same facts for people.
std::string SummaryText(const runs::Source& source, const Summary& summary, size_t bytes);

// The run's environment with every string escaped, at most `bytes`; an empty object if there is
// none.
Json ShownEnvironment(const std::string& raw, size_t bytes);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_REPORT_H_
