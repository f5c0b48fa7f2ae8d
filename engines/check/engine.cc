#include "engines/check/engine.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/trace.h"
#include "engines/check/candidates/find_candidates.h"
#include "engines/check/candidates/ranking.h"
#include "engines/check/candidates/setting_hazards.h"
#include "engines/check/facts/facts.h"
#include "engines/check/inputs/settings_python.h"
#include "engines/check/map/places.h"
#include "engines/check/report/finish.h"
#include "engines/check/rule_choice.h"
#include "engines/check/rule_set.h"
#include "engines/check/syntax/parallel.h"
#include "engines/check/syntax/text_search.h"
#include "engines/check/unit.h"

namespace mpnanny::check {
namespace {

// What is known of everything that is checked together is held in memory at once, about 12 bytes a
// byte of source; more than this is checked in parts.
constexpr size_t kMaxPartBytes = 32u << 20;
// More findings would tell nobody anything.
constexpr size_t kMaxFindings = 20000;

// One check over all sources: what its steps share.
class Run {
 public:
  Run(const std::vector<Source>& sources, const Options& options, const RuleSet& rules,
      std::map<const ProjectPolicy*, RuleChoice> choices, const CancelToken& cancel)
      : sources_(sources),
        options_(options),
        rules_(rules),
        choices_(std::move(choices)),
        cancel_(cancel) {}

  Result<Report> All() {
    int parts = 0;
    for (size_t begin = 0; begin < sources_.size(); ++parts) {
      size_t end = begin;
      for (size_t bytes = 0; end < sources_.size(); ++end) {
        bytes += sources_[end].text.size();
        if (bytes > kMaxPartBytes && end > begin) break;
      }
      Part(begin, end);
      MPN_TRY(cancel_.Check());
      begin = end;
    }
    if (parts > 1) {
      report_.notes.push_back("This is more than " + std::to_string(kMaxPartBytes >> 20) +
                              " MB of code: it was checked in " + std::to_string(parts) +
                              " parts, and what one of them defines is not known to the others.");
    }
    SortFindings(report_.findings);
    report_.candidates = RankCandidates(std::move(report_.candidates), report_.findings);
    if (report_.findings.size() > kMaxFindings) {
      report_.findings.resize(kMaxFindings);
      report_.notes.push_back(
          "There are more findings than can be told; check fewer files at once.");
    }
    return std::move(report_);
  }

 private:
  // Sources [begin, end) are one project.
  void Part(size_t begin, size_t end) {
    std::vector<Unit> units(end - begin);
    InParallel(units.size(), options_.threads, [&](size_t i) {
      Tell();
      (void)ReadUnit(sources_[begin + i], rules_, options_.skip_without_torch, cancel_,
                     &units[i]);  // fails only when cancelled
      ++done_;
    });
    // Through a package's __init__.py other files import; where there is none, nobody does.
    if (std::any_of(units.begin(), units.end(),
                    [](const Unit& unit) { return unit.facts != nullptr; })) {
      InParallel(units.size(), options_.threads, [&](size_t i) {
        if (units[i].may_lead)
          (void)ReadUnit(sources_[begin + i], rules_, false, cancel_, &units[i]);
      });
    }
    if (cancel_.stop_requested()) return;
    std::vector<FileFacts*> files;
    for (const Unit& unit : units) {
      if (unit.facts) files.push_back(unit.facts.get());
      report_.notes.insert(report_.notes.end(), unit.notes.begin(), unit.notes.end());
    }
    std::vector<std::vector<std::string>> notes(units.size());
    Modules modules;
    LinkFacts(files, options_.threads, &modules);
    CompleteFacts(files, options_.threads, cancel_);
    InParallel(units.size(), options_.threads, [&](size_t i) {
      Tell();
      if (units[i].IsChecked()) CheckUnit(units[i], &notes[i]);
      const std::lock_guard lock(mutex_);
      ++(units[i].IsChecked() ? report_.files_scanned : report_.files_skipped);
      ++done_;
    });
    for (const std::vector<std::string>& of_unit : notes)
      report_.notes.insert(report_.notes.end(), of_unit.begin(), of_unit.end());
    InParallel(units.size(), options_.threads, [&](size_t i) { units[i] = {}; });
  }

  void MapUnit(const Unit& unit) {
    std::vector<Settings> passed;
    if (unit.facts && MayHoldSettings(unit.Text())) passed = ReadPythonSettings(*unit.facts);
    std::vector<MapPlace> places = FindPlaces(unit, unit.facts ? passed : unit.settings);
    const std::lock_guard lock(mutex_);
    std::move(places.begin(), places.end(), std::back_inserter(report_.map));
  }

  void CheckUnit(const Unit& unit, std::vector<std::string>* notes) {
    if (cancel_.stop_requested()) return;
    if (options_.map) return MapUnit(unit);
    const RuleChoice choice =
        WithoutIgnored(choices_.at(unit.source->policy.get()), *unit.source, rules_);
    const WordIndex words(unit.Text());  // the rules ask for hundreds
    std::vector<RawFinding> raw;
    std::vector<Settings> passed;  // by Python code to a framework
    if (unit.facts && MayHoldSettings(unit.Text())) passed = ReadPythonSettings(*unit.facts);
    const std::vector<Settings>& all = unit.facts ? passed : unit.settings;
    Sink sink(&raw);
    for (size_t rule = 0; rule < rules_.pages().size(); ++rule) {
      if (!choice.wanted[rule]) continue;
      sink.set_rule(rule);
      if (unit.facts && rules_.check(rule) != nullptr) rules_.check(rule)(*unit.facts, sink);
      if (rules_.settings_check(rule) == nullptr) continue;
      for (const Settings& settings : all) rules_.settings_check(rule)(settings, sink);
    }
    std::optional<TextIndex> own;
    const TextIndex& lines = unit.facts ? unit.facts->lines : own.emplace(unit.text);
    Suppressions suppressions =
        unit.facts ? Suppressions(unit.facts->syntax, lines) : Suppressions(lines);
    const auto wanted = CandidateChoice(options_, *unit.source);
    std::vector<Candidate> candidates = FindCandidates(unit, wanted, suppressions);
    AddSettingCandidates(unit, lines, all, wanted, suppressions, &candidates);
    Finished finished = Finish(unit, lines, std::move(raw), rules_, choice, options_, suppressions);
    if (options_.report_unused_ignores) NoteUnused(unit, suppressions, rules_, choice, notes);
    const std::lock_guard lock(mutex_);
    report_.suppressed += finished.suppressed;
    report_.not_kept += finished.not_kept;
    for (size_t i = 0; i < report_.counts.size(); ++i) report_.counts[i] += finished.counts[i];
    std::move(finished.findings.begin(), finished.findings.end(),
              std::back_inserter(report_.findings));
    std::move(candidates.begin(), candidates.end(), std::back_inserter(report_.candidates));
    std::move(finished.candidates.begin(), finished.candidates.end(),
              std::back_inserter(report_.candidates));
  }

  void Tell() {
    if (!options_.on_step) return;
    const std::lock_guard lock(mutex_);
    options_.on_step(done_, 2 * sources_.size(), report_);
  }

  const std::vector<Source>& sources_;
  const Options& options_;
  const RuleSet& rules_;
  const std::map<const ProjectPolicy*, RuleChoice> choices_;  // one a policy
  const CancelToken& cancel_;
  std::mutex mutex_;  // guards report_ while threads run
  Report report_;
  std::atomic<size_t> done_ = 0;
};

}  // namespace

const char* SeverityName(Severity severity) {
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "info";
}

Result<Severity> ParseSeverity(std::string_view name) {
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
    if (name == SeverityName(severity)) return severity;
  }
  return InvalidInput("'" + EscapeControl(name, 40) + "' is no severity.",
                      "Use error, warning or info.");
}

Result<Report> Check(const std::vector<Source>& sources, const Options& options,
                     const RuleSet& rules, const CancelToken& cancel) {
  const TraceSpan span("static_check");
  std::set<const ProjectPolicy*> policies = {nullptr};
  for (const Source& source : sources) policies.insert(source.policy.get());
  std::map<const ProjectPolicy*, RuleChoice> choices;
  for (const ProjectPolicy* policy : policies) {
    auto choice = ChooseRules(options, policy, rules);
    if (!choice) return choice.error();
    choices[policy] = *std::move(choice);
  }
  return Run(sources, options, rules, std::move(choices), cancel).All();
}

void SortFindings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(-static_cast<int>(a.severity), std::string_view(a.path), a.line, a.column,
                      std::string_view(a.rule)) < std::tuple(-static_cast<int>(b.severity),
                                                             std::string_view(b.path), b.line,
                                                             b.column, std::string_view(b.rule));
  });
}

}  // namespace mpnanny::check
