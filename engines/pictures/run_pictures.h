// PNGs of what the tools over runs answer, for clients that show images.
//
// Free functions without state; each is a Tool's `picture` (engines/call_context.h).
#ifndef MPNANNY_ENGINES_PICTURES_RUN_PICTURES_H_
#define MPNANNY_ENGINES_PICTURES_RUN_PICTURES_H_

#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"

namespace mpnanny::pictures {

// The loss above layers × steps, with the first bad step and cell marked.
Result<Picture> OfDiagnosis(const Json& arguments, const Json& answer, const ToolContext& context);
// Loss, gradient norm, loss scale and learning rate.
Result<Picture> OfSummary(const Json& arguments, const Json& answer, const ToolContext& context);
// The same of two runs, laid over each other.
Result<Picture> OfComparison(const Json& arguments, const Json& answer,
                             const ToolContext& context);
// The series of query_stats as lines, distributions as bars.
Result<Picture> OfSeries(const Json& arguments, const Json& answer, const ToolContext& context);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_RUN_PICTURES_H_
