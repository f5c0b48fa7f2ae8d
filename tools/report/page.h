// One HTML file of one or two runs that works without a network: data, script and style are in it.
//
// Free functions without state. Whatever comes out of a run's files stands in one JSON block, in
// which no markup can end; the script puts it on the page as text.
#ifndef MPNANNY_TOOLS_REPORT_PAGE_H_
#define MPNANNY_TOOLS_REPORT_PAGE_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny::report {

// What a page shows of a run: the answers of run_summary, diagnose_run and query_alerts, curves, heat
// maps and histograms. `detailed`: heat maps and histograms too, which a second run does without.
Result<Json> RunData(const std::string& run, const ToolContext& context, bool detailed);

struct PageOptions {
  std::string language = "en";  // en | zh: what it opens in; the page can change it
  std::string follow;           // address that gives new data, for a page that is live; "" for none
};

// `handles`: of one or two runs, as tools take them: paths and folders as well.
Result<std::string> MakePage(const std::vector<std::string>& handles, const PageOptions& options,
                             const ToolContext& context);

}  // namespace mpnanny::report

#endif  // MPNANNY_TOOLS_REPORT_PAGE_H_
