#include "tools/call.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "tools/arguments.h"

namespace mpnanny {
namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;
using Path = std::vector<std::string>;  // one step a property name or a list index

constexpr size_t kMostFound = 1000;   // problems that are looked at; what is wrong in more is junk
constexpr size_t kMostProblems = 12;  // told of one call; a model mends the first ones first
constexpr size_t kShownValue = 60;    // bytes of a wrong value that are repeated

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

std::string Show(const Json& value) { return EscapeControl(DumpJson(value), kShownValue); }

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

std::vector<std::string> Names(const Json& schema) {
  std::vector<std::string> names;
  if (!schema.contains("properties")) return names;
  for (const auto& [name, unused] : schema["properties"].items()) names.push_back(name);
  return names;
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
    problems.push_back(name + " must be one of " + Join(shown, ", ") + ", not " + Show(value));
    return problems;
  }
  const bool wrong_type = schema.contains("type") && [&] {
    const std::string type = value.is_number_integer() ? "integer"
                             : value.is_number()       ? "number"
                                                       : value.type_name();
    return !SchemaAllowsType(schema, type);
  }();
  if (wrong_type) {
    problems.push_back(name + " must be " + TypeWords(schema["type"]) + ", not " + Show(value));
    return problems;
  }
  const auto bound = [&](const char* keyword, double measured, bool low, const char* words) {
    if (!schema.contains(keyword)) return;
    const double limit = schema[keyword].get<double>();
    if (low ? measured >= limit : measured <= limit) return;
    problems.push_back(name + words + schema[keyword].dump() + ", not " + Show(value));
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
    const std::vector<std::string> known = Names(schema);
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

// Everything wrong with `value`, each problem once, in the order in which the validator came upon
// it.
std::vector<std::string> Problems(const Json& schema, const Json& value,
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

// What the arguments that `problems` speak of are for: tools/list says it in brief.
std::string Explanations(const Json& schema, const std::vector<std::string>& problems) {
  std::string text;
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, property] : properties.items()) {
    const std::string about = property.value("description", "");
    const bool meant = std::any_of(problems.begin(), problems.end(), [&](const auto& problem) {
      const std::string start = "`" + name;
      return problem.starts_with(start) && problem.size() > start.size() &&
             std::string_view("`[.").find(problem[start.size()]) != std::string_view::npos;
    });
    if (meant && !about.empty()) text += " `" + name + "`: " + about;
  }
  return text;
}

// What the command line calls an argument is taken as well: `step` for `steps`, `db` for `run`.
void TakeCommandNames(const ToolDefinition& definition, Json& arguments) {
  for (const auto* names : {&definition.command.options, &definition.command.aliases}) {
    for (const auto& [property, name] : *names) {
      std::string option = name;
      std::replace(option.begin(), option.end(), '-', '_');
      const auto given = arguments.find(option);
      if (given == arguments.end() || arguments.contains(property)) continue;
      Json value = std::move(*given);
      arguments.erase(option);
      arguments[property] = std::move(value);
    }
  }
}

Error HandlerThrew(const std::string& tool, const char* what) {
  const std::string id = LogError(tool + " threw: " + what);
  return Internal("Internal error in " + tool + ". Log id " + id +
                  "; the details are on the server's stderr.");
}

}  // namespace

Result<void> ValidateAgainstSchema(const Json& schema, const Json& value, const std::string& what) {
  try {
    const std::vector<std::string> problems = Problems(schema, value, "the value");
    if (problems.empty()) return {};
    return InvalidInput(what + ": " + JoinProblems(problems));
  } catch (const std::exception& thrown) {
    return Internal("The schema of " + what + " cannot be used: " + thrown.what());
  }
}

Result<ToolOutput> CallTool(const Tool& tool, Json arguments, const ToolContext& context) {
  const ToolDefinition& definition = tool.definition;
  const TraceSpan span("tool", definition.name);
  if (auto stopped = context.cancel.Check(); !stopped) return stopped.error();
  try {
    if (arguments.is_null()) arguments = Json::object();
    if (!arguments.is_object()) {
      return InvalidInput(definition.name + ": the arguments must be an object, not " +
                          Show(arguments) + ".");
    }
    TakeCommandNames(definition, arguments);
    NormaliseArguments(definition.input_schema, arguments);
    const std::vector<std::string> problems =
        Problems(definition.input_schema, arguments, "the arguments");
    if (!problems.empty()) {
      const std::vector<std::string> names = Names(definition.input_schema);
      return InvalidInput(definition.name + ": " + JoinProblems(problems),
                          names.empty() ? "It takes no arguments."
                                        : "Its arguments are " + Join(names, ", ") + "." +
                                              Explanations(definition.input_schema, problems));
    }
    return tool.run(arguments, context);
  } catch (const std::exception& thrown) {
    return HandlerThrew(definition.name, thrown.what());
  } catch (...) {
    return HandlerThrew(definition.name, "something that is no std::exception");
  }
}

}  // namespace mpnanny
