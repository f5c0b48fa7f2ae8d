#include "server/prompts/prompt_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/front_matter.h"
#include "base/log.h"
#include "base/text.h"

namespace mpnanny {
namespace {

constexpr char kFolder[] = "prompts/";
constexpr std::string_view kChinese = ".zh.md";
constexpr char kLanguage[] = "language";

Result<std::string> StringField(const Json& object, const std::string& key,
                                const std::string& where) {
  const auto field = object.find(key);
  if (field == object.end() || !field->is_string() ||
      field->get_ref<const std::string&>().empty()) {
    return InvalidInput(where + ": field '" + key + "' is missing or no text.");
  }
  return field->get<std::string>();
}

Result<void> OnlyKnownKeys(const Json& object, const std::vector<std::string>& known,
                           const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return InvalidInput(where + ": unknown field '" + key + "'. " + DidYouMean(key, known));
  }
  return {};
}

Result<PromptArgument> ParseArgument(const Json& json, const std::string& where) {
  if (!json.is_object())
    return InvalidInput(where + ": an argument must have fields (name, description).");
  if (auto known =
          OnlyKnownKeys(json, {"name", "description", "required", "values", "completed_by"}, where);
      !known) {
    return known.error();
  }
  PromptArgument argument;
  auto name = StringField(json, "name", where);
  if (!name) return name.error();
  auto description = StringField(json, "description", where);
  if (!description) return description.error();
  argument.name = *std::move(name);
  argument.description = *std::move(description);
  const Json required = json.value("required", Json("false"));
  if (required != "true" && required != "false")
    return InvalidInput(where + ": 'required' is true or false.");
  argument.required = required == "true";
  if (const auto values = json.find("values"); values != json.end()) {
    if (!values->is_array()) return InvalidInput(where + ": 'values' must be a list.");
    for (const Json& value : *values) {
      if (!value.is_string()) return InvalidInput(where + ": 'values' must be a list of texts.");
      argument.values.push_back(value.get<std::string>());
    }
  }
  if (json.contains("completed_by")) {
    auto by = StringField(json, "completed_by", where);
    if (!by) return by.error();
    if (!argument.values.empty()) {
      return InvalidInput(where + ": argument '" + argument.name +
                          "' has 'values' and 'completed_by'; only one of them can complete it.");
    }
    argument.completed_by = *std::move(by);
  }
  return argument;
}

// Calls on_text(part) and on_name(name) for the parts of `text` in their order.
template <typename OnText, typename OnName>
void ForEachPart(std::string_view text, const OnText& on_text, const OnName& on_name) {
  while (true) {
    const size_t open = text.find("{{");
    const size_t close = open == std::string_view::npos ? open : text.find("}}", open);
    if (close == std::string_view::npos) return on_text(text);
    on_text(text.substr(0, open));
    on_name(std::string(text.substr(open + 2, close - open - 2)));
    text.remove_prefix(close + 2);
  }
}

std::set<std::string> NamesUsed(std::string_view text) {
  std::set<std::string> names;
  ForEachPart(
      text, [](std::string_view) {}, [&](const std::string& name) { names.insert(name); });
  return names;
}

// A Markdown code span: its fence is longer than any run of backticks inside.
std::string CodeSpan(const std::string& value) {
  const std::string shown = EscapeControl(value, value.size() * 12);
  size_t longest = 0;
  size_t run = 0;
  for (const char c : shown) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  const std::string fence(longest + 1, '`');
  return longest == 0 ? fence + shown + fence : fence + " " + shown + " " + fence;
}

}  // namespace

std::string FillIn(std::string_view text, const std::map<std::string, std::string>& arguments) {
  std::string filled;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::string_view line =
        text.substr(0, newline == std::string_view::npos ? newline : newline + 1);
    text.remove_prefix(line.size());
    std::string out;
    bool complete = true;
    ForEachPart(
        line, [&](std::string_view part) { out += part; },
        [&](const std::string& name) {
          const auto value = arguments.find(name);
          if (value == arguments.end()) {
            complete = false;
          } else {
            out += CodeSpan(value->second);
          }
        });
    if (complete) filled += out;
  }
  return filled;
}

namespace {

// The Chinese text, after `prompt` got its title and the argument that asks for it.
Result<std::string> AddChinese(std::string_view text, const std::string& path,
                               const std::set<std::string>& used, ServedPrompt& prompt) {
  MPN_TRY_ASSIGN(auto file, ParseFrontMatter(text, path));
  MPN_TRY(OnlyKnownKeys(file.fields, {"title"}, path));
  MPN_TRY_ASSIGN(auto title, StringField(file.fields, "title", path));
  if (NamesUsed(file.body) != used) {
    return InvalidInput(path + ": it does not use the same {{arguments}} as the English text.");
  }
  prompt.title += " · " + title;
  PromptArgument language;
  language.name = kLanguage;
  language.description = "Of the procedure and the answer: en (default) or zh.";
  language.values = {"en", "zh"};
  prompt.arguments.push_back(std::move(language));
  return std::move(file.body);
}

}  // namespace

Result<ServedPrompt> ParsePrompt(std::string_view text, const std::string& path,
                                 std::optional<std::string_view> chinese) {
  MPN_TRY_ASSIGN(auto file, ParseFrontMatter(text, path));
  const Json& fields = file.fields;
  if (auto known =
          OnlyKnownKeys(fields, {"name", "title", "description", "arguments", "example"}, path);
      !known) {
    return known.error();
  }
  ServedPrompt prompt;
  for (const auto& [key, target] : {std::pair{"name", &prompt.name},
                                    {"title", &prompt.title},
                                    {"description", &prompt.description}}) {
    auto value = StringField(fields, key, path);
    if (!value) return value.error();
    *target = *std::move(value);
  }
  if (!path.ends_with("/" + prompt.name + ".md")) {
    return InvalidInput(path + ": the name '" + prompt.name + "' is not that of the file.");
  }
  std::set<std::string> used = NamesUsed(file.body);
  const Json arguments = fields.value("arguments", Json::array());
  if (!arguments.is_array()) return InvalidInput(path + ": 'arguments' must be a list.");
  for (const Json& json : arguments) {
    auto argument = ParseArgument(json, path);
    if (!argument) return argument.error();
    if (used.erase(argument->name) == 0) {
      return InvalidInput(path + ": argument '" + argument->name +
                          "' is declared twice or not used in the text.");
    }
    prompt.arguments.push_back(*std::move(argument));
  }
  if (!used.empty()) {
    return InvalidInput(path + ": {{" + *used.begin() +
                        "}} is used and not declared in 'arguments'.");
  }
  std::string in_chinese;
  if (chinese) {
    const std::string zh_path = path.substr(0, path.size() - 3) + ".zh.md";
    auto translated = AddChinese(*chinese, zh_path, NamesUsed(file.body), prompt);
    if (!translated) return translated.error();
    in_chinese = *std::move(translated);
  }
  prompt.render = [body = std::move(file.body), in_chinese = std::move(in_chinese)](
                      const std::map<std::string, std::string>& values,
                      const RequestContext&) -> Outcome {
    const auto language = values.find(kLanguage);
    const bool zh = !in_chinese.empty() && language != values.end() && language->second == "zh";
    Json message = {
        {"role", "user"},
        {"content", {{"type", "text"}, {"text", FillIn(zh ? in_chinese : body, values)}}}};
    return MethodResult{{{"messages", Json::array({std::move(message)})}}};
  };
  return prompt;
}

std::vector<ServedPrompt> LoadPrompts(const DataFiles& data) {
  std::vector<ServedPrompt> prompts;
  for (const std::string& path : data.List(kFolder, ".md")) {
    if (path.ends_with("/README.md") || path.ends_with(kChinese)) continue;
    const std::string chinese = path.substr(0, path.size() - 3) + std::string(kChinese);
    auto prompt = ParsePrompt(*data.Read(path), path, data.Read(chinese));
    if (prompt) {
      prompts.push_back(*std::move(prompt));
    } else {
      LogWarning("Prompt left out: " + prompt.error().Text());
    }
  }
  return prompts;
}

}  // namespace mpnanny
