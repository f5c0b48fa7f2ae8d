#include "engines/cases/case.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <mutex>

#include "base/front_matter.h"
#include "base/text.h"
#include "engines/cases/versions.h"
#include "engines/cases/vocabulary.h"

namespace mpnanny::cases {
namespace {

const std::array<std::string, 22> kFields = {
    "id",         "kind",      "title",      "symptom",       "title_zh",
    "symptom_zh", "fix_zh",    "posted",     "category",      "severity",
    "difficulty", "precision", "components", "detectable_by", "frameworks",
    "devices",    "versions",  "verified",   "verified_with", "signals",
    "evidence",   "related"};

// Takes fields out of front matter and remembers every complaint instead of stopping at the first.
class FieldReader {
 public:
  FieldReader(const Json& fields, std::string_view name, std::vector<std::string>& problems)
      : fields_(fields), name_(name), problems_(problems) {
    const std::vector<std::string> known(kFields.begin(), kFields.end());
    for (const auto& [key, value] : fields_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string near = DidYouMean(key, known);
      Complain("unknown field '" + EscapeControl(key, 60) + "'. " +
               (near.empty() ? "Allowed: " + Join(known, ", ") + "." : near));
    }
  }

  void Complain(const std::string& what) { problems_.push_back(name_ + ": " + what); }

  std::string Text(const std::string& key) {
    const Json* value = Get(key);
    if (value == nullptr) return "";
    if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
      Complain("field '" + key + "' must be a text that is not empty.");
      return "";
    }
    return value->get<std::string>();
  }

  // A text that pages of earlier versions lack.
  std::string OptionalText(const std::string& key) {
    return fields_.contains(key) ? Text(key) : "";
  }

  std::string OneOf(const std::string& key, std::span<const Word> words) {
    std::string text = Text(key);
    if (!text.empty()) CheckWord(key, text, words);
    return text;
  }

  // A list of texts; `least` is how many it must have.
  std::vector<std::string> List(const std::string& key, size_t least,
                                std::span<const Word> words = {}) {
    std::vector<std::string> list;
    const Json* value = Get(key);
    if (value == nullptr) return list;
    if (!value->is_array()) {
      Complain("field '" + key + "' must be a list: [a, b].");
      return list;
    }
    for (const Json& item : *value) {
      if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
        Complain("field '" + key + "' holds something that is no text.");
        continue;
      }
      list.push_back(item.get<std::string>());
      if (std::count(list.begin(), list.end(), list.back()) > 1) {
        Complain("field '" + key + "' names '" + list.back() + "' twice.");
      }
      if (!words.empty()) CheckWord(key, list.back(), words);
    }
    if (list.size() < least) {
      Complain("field '" + key + "' is empty." +
               (words.empty() ? "" : " Allowed: " + Names(words) + "."));
    }
    return list;
  }

  // A day as 2026-11-23.
  std::string Day(const std::string& key) {
    std::string day = Text(key);
    constexpr std::string_view kForm = "dddd-dd-dd";
    const bool formed = day.size() == kForm.size() &&
                        std::equal(day.begin(), day.end(), kForm.begin(), [](char c, char form) {
                          return form == 'd' ? c >= '0' && c <= '9' : c == form;
                        });
    if (!day.empty() && !formed) Complain("field '" + key + "' must be a day: 2026-11-23.");
    return day;
  }

  // A list whose entries `parse` must understand.
  template <typename Parse>
  std::vector<std::string> Parsed(const std::string& key, size_t least, Parse parse) {
    std::vector<std::string> list = List(key, least);
    for (const std::string& item : list) {
      if (const auto parsed = parse(item); !parsed) Complain(parsed.error().Text());
    }
    return list;
  }

  std::vector<Signal> Signals() {
    std::vector<Signal> signals;
    const Json* value = Get("signals");
    if (value == nullptr) return signals;
    if (!value->is_array()) {
      Complain("field 'signals' must be a list of {signal: \"…\", weight: n}.");
      return signals;
    }
    for (const Json& item : *value) {
      const bool shaped = item.is_object() && item.size() == 2 && item.contains("signal") &&
                          item.contains("weight") && item["signal"].is_string() &&
                          item["weight"].is_string();
      if (!shaped) {
        Complain(
            "an entry of 'signals' must be {signal: \"…\", weight: n}, with both and no more.");
        continue;
      }
      const std::string& number = item["weight"].get_ref<const std::string&>();
      double weight = 0;
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), weight);
      if (error != std::errc() || end != number.data() + number.size()) weight = std::nan("");
      auto signal = ParseSignal(item["signal"].get_ref<const std::string&>(), weight);
      if (!signal) {
        Complain(signal.error().Text());
        continue;
      }
      signals.push_back(*std::move(signal));
    }
    return signals;
  }

 private:
  const Json* Get(const std::string& key) {
    const auto it = fields_.find(key);
    if (it != fields_.end() && !it->is_null()) return &*it;
    Complain("field '" + key + "' is missing.");
    return nullptr;
  }

  void CheckWord(const std::string& key, const std::string& word, std::span<const Word> words) {
    if (IsWord(words, word)) return;
    Complain("field '" + key + "' has the unknown value '" + EscapeControl(word, 60) +
             "'. Allowed: " + Names(words) + ".");
  }

  const Json& fields_;
  std::string name_;
  std::vector<std::string>& problems_;
};

struct Heading {
  std::string_view title;
  size_t line = 0;  // where the heading's line starts
  size_t text = 0;  // where the text after it starts
};

std::vector<Heading> FindHeadings(std::string_view body) {
  std::vector<Heading> headings;
  bool fenced = false;
  for (size_t start = 0; start < body.size();) {
    const size_t end = std::min(body.find('\n', start), body.size());
    std::string_view line = body.substr(start, end - start);
    if (line.starts_with("```")) fenced = !fenced;
    if (!fenced && line.starts_with("## ")) {
      line.remove_prefix(3);
      while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
      headings.push_back({line, start, std::min(end + 1, body.size())});
    }
    start = end + 1;
  }
  return headings;
}

}  // namespace

std::vector<std::string> Headings(std::string_view body) {
  std::vector<std::string> titles;
  for (const Heading& heading : FindHeadings(body)) titles.emplace_back(heading.title);
  return titles;
}

std::string Section(std::string_view body, std::string_view heading) {
  const std::vector<Heading> headings = FindHeadings(body);
  for (size_t i = 0; i < headings.size(); ++i) {
    if (headings[i].title != heading) continue;
    const size_t end = i + 1 < headings.size() ? headings[i + 1].line : body.size();
    std::string_view text = body.substr(headings[i].text, end - headings[i].text);
    const size_t first = text.find_first_not_of(" \n\r");
    if (first == std::string_view::npos) return "";
    text = text.substr(first, text.find_last_not_of(" \n\r") - first + 1);
    return std::string(text);
  }
  return "";
}

Case ReadCase(std::string_view text, std::string_view name, std::vector<std::string>& problems) {
  Case result;
  auto front = ParseFrontMatter(text, name);
  if (!front) {
    problems.push_back(front.error().Text());
    return result;
  }
  FieldReader reader(front->fields, name, problems);
  result.id = reader.Text("id");
  result.kind = reader.OneOf("kind", kKinds);
  result.title = reader.Text("title");
  result.symptom = reader.Text("symptom");
  result.title_zh = reader.Text("title_zh");
  result.symptom_zh = reader.Text("symptom_zh");
  result.fix_zh = reader.OptionalText("fix_zh");
  result.posted = reader.List("posted", 1);
  result.category = reader.OneOf("category", kCategories);
  result.severity = reader.OneOf("severity", kSeverities);
  result.difficulty = reader.OneOf("difficulty", kDifficulties);
  result.precision = reader.List("precision", 1, kPrecisions);
  result.components = reader.List("components", 1, kComponents);
  result.detectable_by = reader.List("detectable_by", 1, kDetectableBy);
  result.frameworks = reader.List("frameworks", 1);
  result.devices = reader.List("devices", 1, kDevices);
  result.versions = reader.Parsed("versions", 0, ParseAffectedVersions);
  result.verified = reader.Day("verified");
  result.verified_with = reader.Parsed("verified_with", 1, ParseVerifiedVersion);
  result.signals = reader.Signals();
  result.evidence = reader.List("evidence", 1);
  result.related = reader.List("related", 0);
  result.body = std::move(front->body);
  result.fix = Section(result.body, "Fix");
  return result;
}

Result<Case> ParseCase(std::string_view text, std::string_view name) {
  std::vector<std::string> problems;
  Case result = ReadCase(text, name, problems);
  if (problems.empty()) return result;
  return InvalidInput(problems.front(),
                      problems.size() == 1
                          ? ""
                          : "And " + std::to_string(problems.size() - 1) + " more of this file.");
}

CaseLibrary CaseLibrary::Load(const DataFiles& data) {
  CaseLibrary library;
  for (const std::string& path : data.List(kCaseFolder, ".md")) {
    const size_t before = library.problems_.size();
    Case read = ReadCase(data.Read(path).value_or(""), path, library.problems_);
    if (library.problems_.size() > before) continue;
    const std::string named = path.substr(kCaseFolder.size(), path.size() - kCaseFolder.size() - 3);
    if (read.id != named) {
      library.problems_.push_back(path + ": its id is '" + EscapeControl(read.id, 80) +
                                  "'. File name and id must be the same.");
      continue;
    }
    library.cases_.push_back(std::move(read));
  }
  std::sort(library.cases_.begin(), library.cases_.end(),
            [](const Case& a, const Case& b) { return a.id < b.id; });
  return library;
}

const Case* CaseLibrary::Find(std::string_view id) const {
  const auto it = std::lower_bound(cases_.begin(), cases_.end(), id,
                                   [](const Case& a, std::string_view b) { return a.id < b; });
  return it != cases_.end() && it->id == id ? &*it : nullptr;
}

std::vector<std::string> CaseLibrary::Ids() const {
  std::vector<std::string> ids;
  ids.reserve(cases_.size());
  for (const Case& one : cases_) ids.push_back(one.id);
  return ids;
}

std::shared_ptr<const CaseLibrary> SharedLibrary(const DataFiles& data) {
  static std::mutex mutex;
  static std::shared_ptr<const CaseLibrary> kept;
  static uint64_t kept_fingerprint = 0;
  const uint64_t fingerprint = data.Fingerprint(kCaseFolder);
  const std::lock_guard lock(mutex);
  if (!kept || kept_fingerprint != fingerprint) {
    kept = std::make_shared<const CaseLibrary>(CaseLibrary::Load(data));
    kept_fingerprint = fingerprint;
  }
  return kept;
}

}  // namespace mpnanny::cases
