#include "engines/cases/lint.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "engines/cases/case.h"
#include "engines/cases/versions.h"
#include "engines/cases/vocabulary.h"

namespace mpnanny::cases {
namespace {

constexpr std::string_view kRuleFolder = "engines/check/rules/";
constexpr std::string_view kAlertFolder = "monitor/alerts/";
constexpr size_t kLongestId = 60;
constexpr size_t kLongestTitle = 100;  // characters: it stands in lists
constexpr size_t kLongestPost = 240;   // characters: one phrase of a post, not a page
constexpr size_t kLeastPosts = 5;      // fewer leave too much of how people write to chance …
constexpr size_t kLeastChinesePosts = 2;

bool HasChinese(std::string_view text) {
  // The lead bytes of U+4000…U+9FFF: enough to tell a Chinese text from an English one.
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte >= 0xE4 && byte <= 0xE9;
  });
}

bool IsLink(std::string_view link) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!link.starts_with(scheme)) continue;
    const std::string_view host =
        link.substr(scheme.size(), link.find('/', scheme.size()) - scheme.size());
    return host.find('.') != std::string_view::npos && !host.ends_with('.') &&
           link.find_first_of(" \t<>\"") == std::string_view::npos;
  }
  return false;
}

std::vector<std::string> NamesUnder(const DataFiles& data, std::string_view folder) {
  std::vector<std::string> names;
  for (const std::string& path : data.List(folder, ".md")) {
    names.push_back(path.substr(folder.size(), path.size() - folder.size() - 3));
  }
  return names;
}

bool Holds(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// First lines of the fenced python blocks of a section.
std::vector<std::string> PythonBlocks(const std::string& section) {
  std::vector<std::string> first_lines;
  constexpr std::string_view kFence = "```python\n";
  for (size_t at = section.find(kFence); at != std::string::npos; at = section.find(kFence, at)) {
    at += kFence.size();
    first_lines.push_back(section.substr(at, section.find('\n', at) - at));
  }
  return first_lines;
}

class Linter {
 public:
  explicit Linter(const DataFiles& data)
      : data_(data),
        ids_(NamesUnder(data, kCaseFolder)),
        rules_(NamesUnder(data, kRuleFolder)),
        alerts_(NamesUnder(data, kAlertFolder)) {}

  std::vector<Problem> Run() {
    for (const std::string& id : ids_) CheckCase(id);
    for (const std::string& path : data_.List(kCaseFolder, ".py")) {
      const std::string id = path.substr(kCaseFolder.size(), path.size() - kCaseFolder.size() - 3);
      if (!Holds(ids_, id)) Add(path, "there is no case " + id + ".md beside it.");
    }
    return std::move(problems_);
  }

 private:
  void Add(const std::string& file, std::string what, bool note = false) {
    problems_.push_back({file, std::move(what), note});
  }

  void CheckCase(const std::string& id) {
    const std::string file = std::string(kCaseFolder) + id + ".md";
    std::vector<std::string> of_front_matter;
    const Case one = ReadCase(data_.Read(file).value_or(""), file, of_front_matter);
    for (std::string& problem : of_front_matter) {
      // "file: what" -> "what": the file is told apart.
      if (problem.starts_with(file)) problem.erase(0, file.size());
      problem.erase(0, std::min(problem.find_first_not_of(": "), problem.size()));
      Add(file, std::move(problem));
    }
    if (one.id != id && !one.id.empty()) {
      Add(file,
          "its id is '" + EscapeControl(one.id, 80) + "'. File name and id must be the same.");
    }
    if (!IsKebab(id) || id.size() > kLongestId) {
      Add(file, "the id must be kebab-case (a-z, 0-9, single '-') with at most " +
                    std::to_string(kLongestId) + " characters.");
    }
    CheckLanguages(file, one);
    CheckPosts(file, one);
    for (const std::string& claim : UnverifiedClaims(one)) {
      Add(file, claim + " Verify it anew, or take the claim back.");
    }
    CheckSections(file, one);
    CheckLinks(file, one);
    CheckSignals(file, one);
    CheckDetectableBy(file, one);
  }

  void CheckLanguages(const std::string& file, const Case& one) {
    for (const auto& [name, text] :
         {std::pair("title_zh", &one.title_zh), std::pair("symptom_zh", &one.symptom_zh),
          std::pair("fix_zh", &one.fix_zh)}) {
      if (!text->empty() && !HasChinese(*text)) Add(file, std::string(name) + " holds no Chinese.");
    }
    for (const auto& [name, text] :
         {std::pair("title", &one.title), std::pair("symptom", &one.symptom)}) {
      if (HasChinese(*text)) Add(file, std::string(name) + " is for English.");
    }
    for (const std::string* title : {&one.title, &one.title_zh}) {
      if (CountCodePoints(*title) > kLongestTitle) {
        Add(file, "a title has more than " + std::to_string(kLongestTitle) + " characters.");
      }
    }
  }

  void CheckPosts(const std::string& file, const Case& one) {
    size_t chinese = 0;
    for (const std::string& post : one.posted) {
      chinese += HasChinese(post) ? 1 : 0;
      if (CountCodePoints(post) > kLongestPost) {
        Add(file,
            "a phrase of 'posted' has more than " + std::to_string(kLongestPost) + " characters.");
      }
    }
    if (one.posted.size() < kLeastPosts || chinese < kLeastChinesePosts) {
      Add(file, "'posted' needs at least " + std::to_string(kLeastPosts) +
                    " phrases as people write them, " + std::to_string(kLeastChinesePosts) +
                    " of them Chinese: search finds the case by them.");
    }
  }

  void CheckSections(const std::string& file, const Case& one) {
    const std::vector<std::string> wanted(std::begin(kSections), std::end(kSections));
    if (Headings(one.body) != wanted) {
      Add(file, "its sections must be, in this order: ## " + Join(wanted, ", ## ") + ".");
      return;
    }
    for (const std::string& heading : wanted) {
      if (Section(one.body, heading).empty()) Add(file, "section '" + heading + "' is empty.");
    }
    const std::string mechanism = Section(one.body, "Mechanism");
    if (mechanism.find_first_of("0123456789") == std::string::npos) {
      Add(file, "section 'Mechanism' holds no number. Say how large, how small, how often.");
    }
    const std::vector<std::string> blocks = PythonBlocks(Section(one.body, "Code"));
    if (blocks.size() != 2 || !blocks[0].starts_with("# bad") || !blocks[1].starts_with("# good")) {
      Add(file,
          "section 'Code' must hold two ```python blocks; the first begins with '# bad', the "
          "second "
          "with '# good'.");
    }
  }

  void CheckLinks(const std::string& file, const Case& one) {
    for (const std::string& link : one.evidence) {
      if (!IsLink(link)) Add(file, "evidence '" + EscapeControl(link, 120) + "' is no web link.");
    }
    for (const std::string& related : one.related) {
      if (related == one.id) Add(file, "it is related to itself.");
      if (!Holds(ids_, related)) {
        Add(file, "related case '" + EscapeControl(related, 80) + "' does not exist. " +
                      DidYouMean(related, ids_));
      }
    }
  }

  void CheckSignals(const std::string& file, const Case& one) {
    std::vector<std::string> seen;
    for (const Signal& signal : one.signals) {
      if (Holds(seen, signal.text)) Add(file, "signal '" + signal.text + "' stands twice.");
      seen.push_back(signal.text);
      if (signal.kind == Signal::Kind::kRule && !rules_.empty() && !Holds(rules_, signal.name)) {
        Add(file, "no rule '" + signal.name + "' is built in: its signal is never seen.", true);
      }
      if (signal.kind == Signal::Kind::kAlert && !alerts_.empty() && !Holds(alerts_, signal.name)) {
        Add(file, "no alert '" + signal.name + "' is built in: its signal is never seen.", true);
      }
    }
  }

  // What detectable_by promises must be there.
  void CheckDetectableBy(const std::string& file, const Case& one) {
    const auto has = [&](std::initializer_list<Signal::Kind> kinds) {
      return std::any_of(one.signals.begin(), one.signals.end(), [&](const Signal& signal) {
        return std::find(kinds.begin(), kinds.end(), signal.kind) != kinds.end();
      });
    };
    const auto promise = [&](const char* word, bool kept, const char* how) {
      if (Holds(one.detectable_by, word) && !kept) {
        Add(file, std::string("detectable_by says '") + word + "', but it has no " + how + ".");
      }
    };
    using Kind = Signal::Kind;
    if (one.kind == "failure") {
      promise("static", has({Kind::kRule}), "'rule:' signal");
      promise("monitor", has({Kind::kAlert, Kind::kScale, Kind::kSign}),
              "'alert:', 'scale:' or 'sign:' signal");
      promise("log", has({Kind::kLog}), "'log:' signal");
    }
    const std::string program = std::string(kCaseFolder) + one.id + ".py";
    const auto text = data_.Read(program);
    promise("reproduction", text.has_value(), "program <id>.py beside it");
    if (!text) return;
    if (!Holds(one.detectable_by, "reproduction")) {
      Add(file, program + " exists: add 'reproduction' to detectable_by.");
    }
    for (const char* function : {"def broken()", "def fixed()"}) {
      if (text->find(function) == std::string_view::npos) {
        Add(program, std::string("has no '") + function + "'.");
      }
    }
  }

  const DataFiles& data_;
  std::vector<std::string> ids_, rules_, alerts_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> LintCases(const DataFiles& data) { return Linter(data).Run(); }

Result<std::string> CaseTemplate(std::string_view id, const DataFiles& data) {
  if (!IsKebab(id) || id.size() > kLongestId) {
    return InvalidInput(
        "'" + EscapeControl(id, 80) + "' is no id.",
        "Write it in kebab-case (a-z, 0-9, '-'), named for the bad pattern, with at "
        "most " +
            std::to_string(kLongestId) + " characters: clip-before-unscale.");
  }
  if (Holds(NamesUnder(data, kCaseFolder), id)) {
    return InvalidInput("Case '" + std::string(id) + "' exists.", "Ids are never used twice.");
  }
  std::string text = "---\nid: " + std::string(id) + "\n";
  text +=
      "kind: failure\n"
      "title: \n"
      "symptom: \n"
      "title_zh: \n"
      "symptom_zh: \n"
      "fix_zh: \n"
      "posted: []   # how people write it, at least five phrases, two of them Chinese\n";
  text += "category:   # " + Names(kCategories) + "\n";
  text += "severity:   # P0 error, P1 warning, P2 info\n";
  text += "difficulty:   # " + Names(kDifficulties) + "\n";
  text += "precision: []   # " + Names(kPrecisions) + "\n";
  text += "components: []   # " + Names(kComponents) + "\n";
  text += "detectable_by: []   # " + Names(kDetectableBy) + "\n";
  text += "frameworks: [pytorch]\n";
  text += "devices: []   # " + Names(kDevices) + "\n";
  text += "versions: []   # affected: torch>=2.9,<2.12; empty means every version\n";
  text += "verified:   # the day: 2026-11-23\n";
  text += "verified_with: []   # torch 2.13.0, or read: transformers 5.0 (source)\n";
  text +=
      "signals:   # what would be seen: knowledge/README.md, \"Signals\"\n"
      "  - {signal: \"alert:INF@forward *.wo\", weight: 3}\n"
      "evidence: []   # links\n"
      "related: []   # ids of other cases\n"
      "---\n";
  for (const std::string_view heading : kSections) {
    text += "## " + std::string(heading) + "\n";
    if (heading == "Code") {
      text += "```python\n# bad: \n```\n```python\n# good: \n```\n";
    } else {
      text += "\n";
    }
  }
  return text;
}

}  // namespace mpnanny::cases
