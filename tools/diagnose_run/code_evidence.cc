#include "tools/diagnose_run/code_evidence.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "tools/diagnose_run/excerpts.h"
#include "tools/static_check/engine.h"
#include "tools/static_check/inputs/sources.h"
#include "tools/static_check/shared_rules.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int kNearLines = 40;  // a module's forward and what stands around it
constexpr size_t kMaxFindings = 200;

bool IsNear(const static_check::Finding& finding, const Place& producer) {
  return producer.line > 0 &&
         std::filesystem::path(finding.path).filename().string() == producer.file &&
         std::abs(finding.line - producer.line) <= kNearLines;
}

}  // namespace

Result<void> CheckCode(const std::vector<std::string>& paths, const ToolContext& context,
                       Facts& facts) {
  auto collected = static_check::CollectSources(paths, context.roots, context.cancel);
  if (!collected) return collected.error();
  auto rules = static_check::SharedRules(context.data);
  if (!rules) return rules.error();
  auto report = static_check::Check(collected->sources, {}, **rules, context.cancel);
  if (!report) return report.error();
  facts.code_checked = report->files_scanned > 0;
  AddExcerpts(collected->sources, facts);
  if (!facts.code_checked) {
    facts.limits.push_back("No file of the given code could be checked or mentions torch.");
  }
  const std::vector<std::string> named = NamedLines(facts);
  const Place producer = named.empty() ? Place{} : ParsePlace(named.front());
  for (const static_check::Finding& finding : report->findings) {
    if (facts.findings.size() >= kMaxFindings) break;
    facts.findings.push_back({finding.rule, static_check::SeverityName(finding.severity),
                              EscapeControl(finding.path, 200) + ":" + std::to_string(finding.line),
                              EscapeControl(finding.message, 300), finding.cases,
                              IsNear(finding, producer)});
  }
  std::stable_partition(facts.findings.begin(), facts.findings.end(),
                        [](const StaticFinding& finding) { return finding.near_source; });
  return {};
}

}  // namespace mpnanny::diagnose_run
