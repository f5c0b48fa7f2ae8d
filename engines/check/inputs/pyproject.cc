#include "engines/check/inputs/pyproject.h"

#define TOML_EXCEPTIONS 0  // a mistake in the file is a value
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "base/resolved_path.h"
#include "base/text.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBytes = 1u << 20;
constexpr std::array<const char*, 8> kKeys = {"select",   "extend-select", "ignore",
                                              "severity", "exclude",       "per-file-ignores",
                                              "fail-on",  "min-severity"};

// Reads the keys of one table; what is wrong becomes a note with its line.
class SectionReader {
 public:
  SectionReader(const std::string& shown, const std::vector<std::string>& rule_ids, Pyproject* out)
      : shown_(shown), rule_ids_(rule_ids), out_(out) {}

  void Read(const toml::table& table) {
    auto policy = std::make_shared<ProjectPolicy>();
    for (auto&& [name, node] : table) {
      const std::string key{std::string_view(name)};
      if (key == "select") {
        policy->select = Rules(node, key);
      } else if (key == "extend-select") {
        policy->also = Rules(node, key);
      } else if (key == "ignore") {
        Append(Rules(node, key), &policy->ignore);  // severity = "off" adds to it as well
      } else if (key == "exclude") {
        out_->exclude = IgnoreList(Strings(node, key));
      } else if (key == "severity") {
        Severities(node, policy.get());
      } else if (key == "per-file-ignores") {
        PerFile(node);
      } else if (key == "min-severity") {
        out_->min_severity = OneSeverity(node, key);
      } else if (key == "fail-on") {
        out_->fail_on = OneSeverity(node, key);
      } else {
        Note(node, "[tool.mpnanny] has no key '" + EscapeControl(key, 60) + "'",
             DidYouMean(key, {kKeys.begin(), kKeys.end()}));
      }
    }
    out_->policy = std::move(policy);
  }

 private:
  static void Append(std::vector<std::string> more, std::vector<std::string>* all) {
    all->insert(all->end(), more.begin(), more.end());
  }

  void Note(const toml::node& node, const std::string& what, const std::string& hint = "") {
    out_->notes.push_back(shown_ + ":" + std::to_string(node.source().begin.line) + ": " + what +
                          (hint.empty() ? "." : ". " + hint));
  }

  // A list of strings, or one string.
  std::vector<std::string> Strings(const toml::node& node, const std::string& key) {
    std::vector<std::string> values;
    if (const auto* one = node.as_string()) return {one->get()};
    const toml::array* const list = node.as_array();
    if (list == nullptr) {
      Note(node, "'" + EscapeControl(key, 60) + "' must be a list of strings");
      return values;
    }
    for (const toml::node& item : *list) {
      if (const auto* text = item.as_string()) {
        values.push_back(text->get());
      } else {
        Note(item, "'" + EscapeControl(key, 60) + "' must be a list of strings");
      }
    }
    return values;
  }

  bool IsRule(const toml::node& node, const std::string& id) {
    if (std::find(rule_ids_.begin(), rule_ids_.end(), id) != rule_ids_.end()) return true;
    const std::string hint = DidYouMean(id, rule_ids_);
    Note(node, "there is no rule '" + EscapeControl(id, 60) + "'",
         hint.empty() ? "`mpnanny rules` lists them." : hint);
    return false;
  }

  std::vector<std::string> Rules(const toml::node& node, const std::string& key,
                                 bool all_by_star = false) {
    std::vector<std::string> ids = Strings(node, key);
    if (all_by_star && std::find(ids.begin(), ids.end(), "*") != ids.end()) return rule_ids_;
    std::erase_if(ids, [&](const std::string& id) { return !IsRule(node, id); });
    return ids;
  }

  std::optional<Severity> OneSeverity(const toml::node& node, const std::string& key) {
    const auto* text = node.as_string();
    const auto severity = ParseSeverity(text == nullptr ? "" : text->get());
    if (severity) return *severity;
    Note(node, "'" + EscapeControl(key, 60) + "' must be error, warning or info");
    return std::nullopt;
  }

  void Severities(const toml::node& node, ProjectPolicy* policy) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) return Note(node, "'severity' must be a table of rule = severity");
    for (auto&& [name, value] : *table) {
      const std::string id{std::string_view(name)};
      if (!IsRule(value, id)) continue;
      const auto* text = value.as_string();
      if (text != nullptr && text->get() == "off") {
        policy->ignore.push_back(id);
      } else if (const auto severity = OneSeverity(value, id)) {
        policy->severity[id] = *severity;
      }
    }
  }

  void PerFile(const toml::node& node) {
    const toml::table* const table = node.as_table();
    if (table == nullptr)
      return Note(node, "'per-file-ignores' must be a table of pattern = [rules]");
    for (auto&& [name, value] : *table) {
      const std::string pattern{std::string_view(name)};
      out_->per_file.emplace_back(IgnoreList(std::vector<std::string>{pattern}),
                                  Rules(value, pattern, /*all_by_star=*/true));
    }
  }

  const std::string& shown_;
  const std::vector<std::string>& rule_ids_;
  Pyproject* out_;
};

}  // namespace

std::string_view Pyproject::Below(std::string_view path) const {
  const size_t prefix = folder.ends_with('/') ? folder.size() : folder.size() + 1;
  return path.size() > prefix && path.starts_with(folder) && path[prefix - 1] == '/'
             ? path.substr(prefix)
             : std::string_view();
}

std::vector<std::string> Pyproject::IgnoredIn(const std::string& file) const {
  std::vector<std::string> rules;
  for (const auto& [pattern, ids] : per_file) {
    if (pattern.Excludes(Below(file))) rules.insert(rules.end(), ids.begin(), ids.end());
  }
  return rules;
}

std::optional<Pyproject> ParsePyproject(std::string_view text, const std::string& shown,
                                        const std::vector<std::string>& rule_ids) {
  if (text.find("mpnanny") == std::string_view::npos) return std::nullopt;
  Pyproject project;
  project.policy = std::make_shared<const ProjectPolicy>();
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    project.notes.push_back(shown + ":" + std::to_string(parsed.error().source().begin.line) +
                            ": no TOML, so that its [tool.mpnanny] is not followed: " +
                            EscapeControl(parsed.error().description(), 200) + ".");
    return project;
  }
  const toml::node* const section = parsed.table()["tool"]["mpnanny"].node();
  if (section == nullptr) return std::nullopt;
  if (section->as_table() == nullptr) {
    project.notes.push_back(shown + ": tool.mpnanny is no table.");
    return project;
  }
  SectionReader(shown, rule_ids, &project).Read(*section->as_table());
  return project;
}

std::optional<Pyproject> FindPyproject(const std::string& folder, const AllowedRoots& roots,
                                       const std::vector<std::string>& rule_ids) {
  for (fs::path at = folder; roots.Resolve(at.generic_string()); at = at.parent_path()) {
    const std::string shown = (at / "pyproject.toml").generic_string();
    const auto file = roots.Resolve(shown);
    const auto text = file ? ReadResolvedFile(*file, kMaxBytes) : file;
    if (text) {
      if (auto project = ParsePyproject(*text, shown, rule_ids)) {
        project->folder = at.generic_string();
        return project;
      }
    }
    if (at == at.parent_path()) break;
  }
  return std::nullopt;
}

}  // namespace mpnanny::check
