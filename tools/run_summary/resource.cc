#include <algorithm>

#include "base/text.h"
#include "engines/diagnosis/summary/report.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/parts.h"
#include "engines/runs/show.h"
#include "tools/list_runs/listing.h"
#include "tools/tool.h"

namespace mpnanny::summary {
namespace {

constexpr size_t kMostListed = 100;

// The newest runs below the roots: what a client can offer without being told a path.
std::vector<list_runs::ListedRun> Newest(const ToolContext& context) {
  std::vector<list_runs::ListedRun> newest;
  // On the command line everything may be read; searching the whole disk unasked is another matter.
  for (const std::string& root : context.roots.roots()) {
    auto listing = list_runs::ListRuns(root, context.roots, context.cancel);
    if (!listing) continue;
    for (auto& run : listing->runs) newest.push_back(std::move(run));
  }
  for (const std::string& database : context.roots.databases()) {
    auto listing = list_runs::ListRuns(database, context.roots, context.cancel);
    if (!listing) continue;
    for (auto& run : listing->runs) newest.push_back(std::move(run));
  }
  if (newest.size() > kMostListed) newest.resize(kMostListed);
  return newest;
}

std::vector<ResourceTemplate::Entry> List(const ToolContext& context) {
  std::vector<ResourceTemplate::Entry> entries;
  for (const auto& listed : Newest(context)) {
    entries.push_back(
        {FormatRunHandle(listed.run.handle), runs::Name(listed.run.name),
         std::string(NameOf(listed.run.status)) + ", " + runs::Count(listed.steps, "step")});
  }
  return entries;
}

Result<std::string> Read(const std::string& handle, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto source, runs::OpenRun(handle, context.roots, context.cancel));
  MPN_TRY_ASSIGN(auto summary, Summarize(source, context));
  return SummaryText(source, summary, context.answer_bytes);
}

// Changes with every new alert and when the run ends, not with every step: a client that
// subscribes wants to hear what is worth a person's attention.
std::string Version(const std::string& handle, const ToolContext& context) {
  auto source = runs::OpenRun(handle, context.roots, context.cancel);
  if (!source) return "";
  std::string version = NameOf(source->run.status);
  if (runs::LiesInOne(*source)) {
    auto all = source->database->Prepare("SELECT count(*), max(alert_id) FROM alert");
    if (!all) return version;
    if (auto row = all->Next(); !row || !*row) return version;
    return version + " " + std::to_string(all->IntOr(0, 0)) + ":" +
           std::to_string(all->IntOr(1, 0));
  }
  const auto add = [&](const runs::Database& database, const runs::Run& run) {
    auto newest = database.Prepare("SELECT count(*), max(alert_id) FROM alert WHERE run_id=?1");
    if (!newest) return;
    newest->Bind(1, *run.handle.run_id);
    if (auto row = newest->Next(); !row || !*row) return;
    version += " " + std::to_string(run.rank) + ":" + std::to_string(newest->IntOr(0, 0)) + ":" +
               std::to_string(newest->IntOr(1, 0));
  };
  std::vector<std::pair<const runs::Database*, const runs::Run*>> parts = {
      {source->database.get(), &source->run}};
  for (const runs::OtherRank& other : source->others) {
    parts.emplace_back(other.database.get(), &other.run);
  }
  // The rank that decides may become another one.
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.second->rank < b.second->rank; });
  for (const auto& [database, run] : parts) add(*database, *run);
  return version;
}

}  // namespace

ResourceTemplate MakeResourceTemplate() {
  ResourceTemplate resource;
  resource.uri_template = "mpnanny://runs/{run}/summary";
  resource.variable = "run";
  resource.name = "run-summary";
  resource.title = "Summary of a monitored run";
  resource.description =
      "How a run went, as run_summary tells it; {run} is a percent-encoded run handle. Who "
      "subscribes hears of new alerts and of the run's end.";
  resource.mime_type = "text/plain";
  resource.is_public = false;
  resource.most_listed = 10;
  resource.list = List;
  resource.read = Read;
  resource.version = Version;
  return resource;
}

}  // namespace mpnanny::summary
