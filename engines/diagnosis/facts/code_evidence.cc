#include "engines/diagnosis/facts/code_evidence.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "engines/check/engine.h"
#include "engines/check/inputs/sources.h"
#include "engines/check/rule_set.h"
#include "engines/check/shared_rules.h"
#include "engines/diagnosis/facts/excerpts.h"

namespace mpnanny::diagnosis {
namespace {

constexpr int kNearLines = 40;  // a module's forward and what stands around it
constexpr size_t kMaxFindings = 200;
// Some 100,000 lines: seconds. A whole library, as transformers, takes the better part of a minute.
constexpr size_t kMostCode = 4'000'000;  // bytes

bool IsNear(const std::string& path, int line, const Place& producer) {
  return producer.line > 0 &&
         std::filesystem::path(path).filename().generic_string() == producer.file &&
         std::abs(line - producer.line) <= kNearLines;
}

// Leaves what can be checked while somebody waits: first the files that the record names, then
// those of their folders, then the others in their order. Answers with how many there were.
size_t KeepNearest(const std::vector<std::string>& named, std::vector<check::Source>& sources) {
  const size_t all = sources.size();
  const auto distance = [&](const check::Source& source) {
    const std::filesystem::path path(source.file.empty() ? source.path : source.file);
    int nearest = 2;
    for (const std::string& line : named) {
      const std::filesystem::path other(line.substr(0, line.rfind(':')));
      if (other.filename() != path.filename() && other.parent_path() != path.parent_path())
        continue;
      nearest = std::min(nearest, other.filename() == path.filename() ? 0 : 1);
    }
    return nearest;
  };
  size_t bytes = 0;
  for (const check::Source& source : sources) bytes += source.text.size();
  if (bytes <= kMostCode) return all;
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < all; ++i) order.emplace_back(distance(sources[i]), i);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<check::Source> kept;
  size_t used = 0;
  for (const auto& [nearness, index] : order) {
    const size_t size = sources[index].text.size();
    if (used + size > kMostCode && !kept.empty()) continue;
    used += size;
    kept.push_back(std::move(sources[index]));
  }
  sources = std::move(kept);
  return all;
}

}  // namespace

Result<void> CheckCode(const std::vector<std::string>& paths, const ToolContext& context,
                       Facts& facts) {
  MPN_TRY_ASSIGN(auto collected, check::CollectSources(paths, context.roots, context.cancel));
  const std::vector<std::string> named = NamedLines(facts);
  const size_t all = KeepNearest(named, collected.sources);
  if (collected.sources.size() < all) {
    facts.limits.push_back(
        {runs::Form("Of {0} files of code {1} were checked, those that the record names first. For "
                    "others give a smaller path, or call static_check.",
                    "{0} 个代码文件中检查了 {1} 个，记录所指出的优先。"
                    "要检查其他文件，给出更小的路径，或调用 static_check。"),
         {static_cast<int64_t>(all), static_cast<int64_t>(collected.sources.size())}});
  }
  MPN_TRY_ASSIGN(auto rules, check::SharedRules(context.data));
  MPN_TRY_ASSIGN(auto report, check::Check(collected.sources, {}, *rules, context.cancel));
  facts.code_checked = report.files_scanned > 0;
  AddExcerpts(collected.sources, facts);
  if (!facts.code_checked) {
    facts.limits.push_back(
        runs::Form("No file of the given code could be checked or mentions torch.",
                   "所给的代码中没有可以检查的文件，或都没有用到 torch。"));
  }
  const Place producer = named.empty() ? Place{} : ParsePlace(named.front());
  for (const check::Finding& finding : report.findings) {
    if (facts.findings.size() >= kMaxFindings) break;
    facts.findings.push_back({finding.rule, check::SeverityName(finding.severity),
                              EscapeControl(finding.path, 200) + ":" + std::to_string(finding.line),
                              EscapeControl(finding.message, 300), finding.cases,
                              IsNear(finding.path, finding.line, producer)});
  }
  // Of places to judge only those at the producer say anything about this run.
  for (const check::Candidate& one : report.candidates) {
    if (facts.findings.size() >= kMaxFindings) break;
    if (!IsNear(one.path, one.line, producer)) continue;
    const check::RulePage* const page = rules->Find(one.rule);
    facts.findings.push_back({one.rule, "candidate",
                              EscapeControl(one.path, 200) + ":" + std::to_string(one.line),
                              EscapeControl(one.hazard, 300),
                              page == nullptr ? std::vector<std::string>() : page->cases, true});
  }
  std::stable_partition(facts.findings.begin(), facts.findings.end(),
                        [](const StaticFinding& finding) { return finding.near_source; });
  return {};
}

}  // namespace mpnanny::diagnosis
