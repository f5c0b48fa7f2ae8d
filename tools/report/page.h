// One HTML file of one or two runs that works without a network: data, script and style are in it.
//
// Free functions without state. Whatever comes out of a run's files stands in one JSON block, in
// which no markup can end; the script puts it on the page as text.
#ifndef MPNANNY_TOOLS_REPORT_PAGE_H_
#define MPNANNY_TOOLS_REPORT_PAGE_H_

#include <string>
#include <vector>

#include "base/data_files.h"
#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny::report {

struct PageOptions {
  std::string language = "en";  // en | zh: what it opens in; the page can change it
};

// An error where there is no such run.
Result<void> CanShow(const std::string& run, const ToolContext& context);

// What a page shows of a run: the answers of run_summary, diagnose_run and query_alerts, curves, heat
// maps and histograms. `detailed`: heat maps and histograms too, which a second run does without.
Result<Json> RunData(const std::string& run, const ToolContext& context, bool detailed);

// What a page draws: {"runs": [RunData], "language", "version"}. `handles`: of one or two
// runs, as tools take them: paths and folders as well.
Result<Json> PageData(const std::vector<std::string>& handles, const PageOptions& options,
                      const ToolContext& context);
Result<std::string> MakePage(const std::vector<std::string>& handles, const PageOptions& options,
                             const ToolContext& context);

// A PNG: the picture of the diagnosis of one run, or of the comparison of two.
Result<std::string> MakePicture(const std::vector<std::string>& handles,
                                const ToolContext& context);

// The page without data, which it asks the place it came from for: data.json, again and again.
std::string MakeLivePage(const PageOptions& options, const DataFiles& data);

// The page for a client that shows it beside an answer (MCP Apps): it asks the client for the data.
std::string MakeView(const DataFiles& data);

}  // namespace mpnanny::report

#endif  // MPNANNY_TOOLS_REPORT_PAGE_H_
