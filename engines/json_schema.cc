#include "engines/json_schema.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr size_t kShownValue = 60;  // bytes of a wrong value that are repeated

using Adapter = valijson::adapters::NlohmannJsonAdapter;
using Path = std::vector<std::string>;  // one step a property name or a list index

constexpr size_t kMostFound = 1000;   // problems that are looked at; what is wrong in more is junk
constexpr size_t kMostProblems = 12;  // told of one call; a model mends the first ones first

// Parsed schemas by the address of their JSON. Addresses are reused, so an entry keeps the JSON
// that it was made from.
class SchemaCache {
 public:
  std::shared_ptr<const valijson::Schema> Get(const Json& json) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[&json];
    if (entry.schema && entry.source == json) return entry.schema;
    const nlohmann::json plain = json;
    auto schema = std::make_shared<valijson::Schema>();
    valijson::SchemaParser().populateSchema(Adapter(plain), *schema);
    if (entries_.size() > kMost)
      entries_.clear();  // tests make many; a server has two for each tool
    entries_[&json] = {json, schema};
    return schema;
  }

 private:
  static constexpr size_t kMost = 200;
  struct Entry {
    Json source;
    std::shared_ptr<const valijson::Schema> schema;
  };
  std::mutex mutex_;
  std::map<const Json*, Entry> entries_;
};

struct Violation {
  Path path;
  std::string description;  // valijson's words
};

// What valijson finds wrong, without the errors that only say that something further in is wrong.
std::vector<Violation> Violations(const valijson::Schema& schema, const Json& value) {
  const nlohmann::json plain = value;
  valijson::ValidationResults results;
  valijson::Validator validator;
  const Adapter target(plain);
  if (validator.validate(schema, target, &results)) return {};
  std::vector<Violation> all;
  for (const auto& error : results) {
    if (all.size() == kMostFound) break;
    Path path;
    for (const std::string& step : error.context) {
      if (step.size() > 1 && step.front() == '[') path.push_back(step.substr(1, step.size() - 2));
    }
    all.push_back({std::move(path), error.description});
  }
  const auto is_wrapper = [&](const Violation& outer) {
    return std::any_of(all.begin(), all.end(), [&](const Violation& inner) {
      return inner.path.size() > outer.path.size() &&
             std::equal(outer.path.begin(), outer.path.end(), inner.path.begin()) &&
             outer.description.starts_with("Failed to validate");
    });
  };
  std::vector<Violation> innermost;
  std::copy_if(all.begin(), all.end(), std::back_inserter(innermost),
               [&](const Violation& violation) { return !is_wrapper(violation); });
  return innermost;
}

// "`files[1].path`"; the root is "the value".
std::string PathName(const Json& root, const Path& path) {
  std::string name;
  const Json* at = &root;
  for (const std::string& step : path) {
    const bool index = at->is_array();
    name += index ? "[" + step + "]" : (name.empty() ? "" : ".") + step;
    if (index) {
      at = &at->at(std::stoul(step));
    } else if (at->is_object() && at->contains(step)) {
      at = &at->at(step);
    }
  }
  return name.empty() ? "the value" : "`" + EscapeControl(name, 200) + "`";
}

// The part of the value that `path` names, and the schema that stands for it (null where that is
// not one plain schema).
std::pair<const Json*, const Json*> Find(const Json& root_schema, const Json& root,
                                         const Path& path) {
  const Json* value = &root;
  const Json* schema = ResolveSchema(root_schema, root_schema);
  for (const std::string& step : path) {
    const Json* next = nullptr;
    if (value->is_array()) {
      const size_t index = std::stoul(step);
      if (index >= value->size()) return {value, nullptr};
      value = &value->at(index);
      if (schema && schema->contains("items")) next = &schema->at("items");
    } else if (value->is_object() && value->contains(step)) {
      value = &value->at(step);
      const Json* const properties =
          schema && schema->contains("properties") ? &schema->at("properties") : nullptr;
      if (properties && properties->contains(step)) {
        next = &properties->at(step);
      } else if (schema && schema->contains("additionalProperties")) {
        next = &schema->at("additionalProperties");
      }
    } else {
      return {value, nullptr};
    }
    schema = next && next->is_object() ? ResolveSchema(root_schema, *next) : nullptr;
  }
  return {value, schema};
}

std::string TypeWords(const Json& type) {
  if (!type.is_array())
    return std::string(type == "integer" ? "an " : "a ") + type.get<std::string>();
  std::vector<std::string> names;
  for (const Json& name : type) names.push_back(name.get<std::string>());
  return "one of " + Join(names, ", ");
}

// "give at least one of `a`, `b`" for an anyOf/oneOf whose branches only demand properties; "" for
// any other.
std::string AlternativesText(const Json& schema) {
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    std::vector<std::string> branches;
    for (const Json& branch : schema[keyword]) {
      if (!branch.is_object() || !branch.contains("required")) return "";
      std::vector<std::string> required;
      for (const Json& name : branch["required"])
        required.push_back("`" + name.get<std::string>() + "`");
      branches.push_back(Join(required, " with "));
    }
    return std::string(keyword == std::string("anyOf") ? "give at least one of "
                                                       : "give exactly one of ") +
           Join(branches, ", ");
  }
  return "";
}

// Says in our words what is wrong with `value`; empty when the reason is none of the common ones.
std::vector<std::string> Explain(const Json& schema, const Json& value, const std::string& name,
                                 bool is_root) {
  std::vector<std::string> problems;
  if (schema.contains("enum")) {
    const Json& choices = schema["enum"];
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return problems;
    std::vector<std::string> shown;
    for (const Json& choice : choices) shown.push_back(DumpJson(choice));
    problems.push_back(name + " must be one of " + Join(shown, ", ") + ", not " + ShownJson(value));
    return problems;
  }
  const bool wrong_type = schema.contains("type") && [&] {
    const std::string type = value.is_number_integer() ? "integer"
                             : value.is_number()       ? "number"
                                                       : value.type_name();
    return !SchemaAllowsType(schema, type);
  }();
  if (wrong_type) {
    problems.push_back(name + " must be " + TypeWords(schema["type"]) + ", not " +
                       ShownJson(value));
    return problems;
  }
  const auto bound = [&](const char* keyword, double measured, bool low, const char* words) {
    if (!schema.contains(keyword)) return;
    const double limit = schema[keyword].get<double>();
    if (low ? measured >= limit : measured <= limit) return;
    problems.push_back(name + words + schema[keyword].dump() + ", not " + ShownJson(value));
  };
  if (value.is_number()) {
    bound("minimum", value.get<double>(), true, " must be at least ");
    bound("maximum", value.get<double>(), false, " must be at most ");
  }
  if (value.is_string()) {
    const auto length = static_cast<double>(CountCodePoints(value.get_ref<const std::string&>()));
    bound("minLength", length, true, " must have a length of at least ");
    bound("maxLength", length, false, " must have a length of at most ");
  }
  if (value.is_array()) {
    bound("minItems", static_cast<double>(value.size()), true, " must have as many items as ");
    bound("maxItems", static_cast<double>(value.size()), false, " must have no more items than ");
  }
  if (!value.is_object()) return problems;
  const std::string where = is_root ? "" : " in " + name;
  for (const Json& required : schema.value("required", Json::array())) {
    if (!value.contains(required.get<std::string>())) {
      problems.push_back("`" + required.get<std::string>() + "`" + where + " is missing");
    }
  }
  if (schema.value("additionalProperties", Json(true)) == Json(false)) {
    const std::vector<std::string> known = PropertiesOf(schema);
    for (const auto& [key, unused] : value.items()) {
      if (problems.size() == kMostFound) break;
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string meant = DidYouMean(key, known);
      problems.push_back("unknown argument `" + EscapeControl(key, kShownValue) + "`" + where +
                         (meant.empty() ? "" : ". " + meant));
    }
  }
  return problems;
}

}  // namespace

const Json* ResolveSchema(const Json& root, const Json& schema) {
  const Json* at = &schema;
  for (int hops = 0; hops < 8; ++hops) {  // a schema may refer to itself
    if (!at->is_object() || !at->contains("$ref")) return at;
    const std::string reference = at->value("$ref", "");
    if (!reference.starts_with("#/")) return nullptr;
    at = &root;
    for (size_t start = 2; start <= reference.size();) {
      const size_t end = std::min(reference.find('/', start), reference.size());
      const auto next = at->find(reference.substr(start, end - start));
      if (!at->is_object() || next == at->end()) return nullptr;
      at = &*next;
      start = end + 1;
    }
  }
  return nullptr;
}

bool SchemaAllowsType(const Json& schema, std::string_view type) {
  const auto allowed = schema.find("type");
  if (allowed == schema.end()) return true;
  const auto fits = [&](const Json& name) {
    return name == type || (type == "integer" && name == "number");
  };
  return allowed->is_array() ? std::any_of(allowed->begin(), allowed->end(), fits) : fits(*allowed);
}

std::vector<std::string> PropertiesOf(const Json& schema) {
  std::vector<std::string> names;
  if (!schema.contains("properties")) return names;
  for (const auto& [name, unused] : schema["properties"].items()) names.push_back(name);
  return names;
}

std::string ShownJson(const Json& value) { return EscapeControl(DumpJson(value), kShownValue); }

std::vector<std::string> SchemaProblems(const Json& schema, const Json& value,
                                        const std::string& root_name) {
  static SchemaCache& cache = *new SchemaCache;  // used by pool threads until the process ends
  const auto parsed = cache.Get(schema);
  std::vector<std::string> problems;
  const auto add = [&](const std::string& problem) {
    if (std::find(problems.begin(), problems.end(), problem) == problems.end())
      problems.push_back(problem);
  };
  std::set<Path> explained_paths;
  for (const Violation& violation : Violations(*parsed, value)) {
    if (explained_paths.contains(violation.path)) continue;  // everything there has been told
    const auto [at, at_schema] = Find(schema, value, violation.path);
    const std::string name = violation.path.empty() ? root_name : PathName(value, violation.path);
    std::vector<std::string> explained;
    if (at_schema) {
      explained = Explain(*at_schema, *at, name, violation.path.empty());
      const std::string alternatives = explained.empty() ? AlternativesText(*at_schema) : "";
      if (!alternatives.empty()) explained.push_back(alternatives);
    }
    if (!explained.empty()) explained_paths.insert(violation.path);
    if (explained.empty())
      explained.push_back(name + ": " + EscapeControl(violation.description, 300));
    for (const std::string& problem : explained) add(problem);
  }
  return problems;
}

std::string JoinProblems(std::vector<std::string> problems) {
  const size_t found = problems.size();
  if (found > kMostProblems) {
    problems.resize(kMostProblems);
    problems.push_back(
        "and " + (found < kMostFound ? std::to_string(found - kMostProblems) : "many") + " more");
  }
  std::string text = Join(problems, "; ");
  if (!text.ends_with("?")) text += ".";  // "Did you mean …?" has its end
  return text;
}

Result<void> ValidateAgainstSchema(const Json& schema, const Json& value, const std::string& what) {
  try {
    const std::vector<std::string> problems = SchemaProblems(schema, value, "the value");
    if (problems.empty()) return {};
    return InvalidInput(what + ": " + JoinProblems(problems));
  } catch (const std::exception& thrown) {
    return Internal("The schema of " + what + " cannot be used: " + thrown.what());
  }
}

}  // namespace mpnanny
