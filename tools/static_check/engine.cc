#include "tools/static_check/engine.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/trace.h"
#include "tools/static_check/facts.h"
#include "tools/static_check/finish.h"
#include "tools/static_check/parallel.h"
#include "tools/static_check/query_set.h"
#include "tools/static_check/rule_set.h"
#include "tools/static_check/settings_python.h"
#include "tools/static_check/unit.h"

namespace mpnanny::static_check {
namespace {

// Syntax trees of everything that is checked together are held in memory at once, about 30 bytes a
// byte of source; more than this is checked in parts.
constexpr size_t kMaxPartBytes = 32u << 20;
// More findings would tell nobody anything.
constexpr size_t kMaxFindings = 20000;

// Which rules run, by index of the rule set.
Result<std::vector<bool>> Select(const Options& options, const RuleSet& rules) {
  const std::vector<std::string> ids = rules.Ids();
  std::vector<bool> wanted;
  for (const RulePage& page : rules.pages())
    wanted.push_back(options.rules.empty() && page.on_by_default);
  for (const auto& [list, on] :
       {std::pair{&options.rules, true}, {&options.also, true}, {&options.ignore, false}}) {
    for (const std::string& id : *list) {
      const auto it = std::find(ids.begin(), ids.end(), id);
      if (it == ids.end()) {
        const std::string hint = DidYouMean(id, ids);
        return InvalidInput("There is no rule '" + EscapeControl(id, 80) + "'.",
                            hint.empty() ? "`mpnanny rules` lists them." : hint);
      }
      wanted[static_cast<size_t>(it - ids.begin())] = on;
    }
  }
  return wanted;
}

// One check over all sources: what its steps share.
class Run {
 public:
  Run(const std::vector<Source>& sources, const Options& options, const RuleSet& rules,
      std::vector<bool> wanted, const CancelToken& cancel)
      : sources_(sources),
        options_(options),
        rules_(rules),
        wanted_(std::move(wanted)),
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
      if (auto stopped = cancel_.Check(); !stopped) return stopped.error();
      begin = end;
    }
    if (parts > 1) {
      report_.notes.push_back("This is more than " + std::to_string(kMaxPartBytes >> 20) +
                              " MB of code: it was checked in " + std::to_string(parts) +
                              " parts, and what one of them defines is not known to the others.");
    }
    SortFindings(report_.findings);
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
      (void)ReadUnit(sources_[begin + i], rules_.ops(), options_.skip_without_torch, cancel_,
                     &units[i]);  // fails only when cancelled
      ++done_;
    });
    if (cancel_.stop_requested()) return;
    std::vector<FileFacts*> files;
    for (const Unit& unit : units) {
      if (unit.facts) files.push_back(unit.facts.get());
      report_.notes.insert(report_.notes.end(), unit.notes.begin(), unit.notes.end());
    }
    Modules modules;
    LinkFacts(files, options_.threads, &modules);
    CompleteFacts(files, options_.threads, cancel_);
    InParallel(units.size(), options_.threads, [&](size_t i) {
      Tell();
      if (units[i].IsChecked()) CheckUnit(units[i]);
      const std::lock_guard lock(mutex_);
      ++(units[i].IsChecked() ? report_.files_scanned : report_.files_skipped);
      ++done_;
    });
  }

  void CheckUnit(const Unit& unit) {
    if (cancel_.stop_requested()) return;
    std::vector<RawFinding> raw;
    std::vector<Settings> passed;  // by Python code to a framework
    if (unit.facts) {
      rules_.queries().Run(*unit.facts, &raw);
      if (MayHoldSettings(unit.Text())) passed = ReadPythonSettings(*unit.facts);
    }
    const std::vector<Settings>& all = unit.facts ? passed : unit.settings;
    Sink sink(&raw);
    for (size_t rule = 0; rule < rules_.pages().size(); ++rule) {
      if (!wanted_[rule]) continue;
      sink.set_rule(rule);
      if (unit.facts && rules_.check(rule) != nullptr) rules_.check(rule)(*unit.facts, sink);
      if (rules_.settings_check(rule) == nullptr) continue;
      for (const Settings& settings : all) rules_.settings_check(rule)(settings, sink);
    }
    Finished finished = Finish(unit, std::move(raw), rules_, wanted_, options_.min_severity);
    const std::lock_guard lock(mutex_);
    report_.suppressed += finished.suppressed;
    std::move(finished.findings.begin(), finished.findings.end(),
              std::back_inserter(report_.findings));
  }

  void Tell() {
    if (!options_.on_step) return;
    const std::lock_guard lock(mutex_);
    options_.on_step(done_, 2 * sources_.size(), report_);
  }

  const std::vector<Source>& sources_;
  const Options& options_;
  const RuleSet& rules_;
  const std::vector<bool> wanted_;
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
  auto wanted = Select(options, rules);
  if (!wanted) return wanted.error();
  return Run(sources, options, rules, *std::move(wanted), cancel).All();
}

void SortFindings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(-static_cast<int>(a.severity), std::string_view(a.path), a.line, a.column,
                      std::string_view(a.rule)) < std::tuple(-static_cast<int>(b.severity),
                                                             std::string_view(b.path), b.line,
                                                             b.column, std::string_view(b.rule));
  });
}

}  // namespace mpnanny::static_check
