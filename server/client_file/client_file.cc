#include "server/client_file/client_file.h"

#include <optional>
#include <utility>

#include "base/text.h"
#include "server/client_file/json_edit.h"
#include "server/client_file/json_text.h"
#include "server/client_file/toml_edit.h"

namespace mpnanny {
namespace {

constexpr char kInputs[] = "inputs";
constexpr char kInputPrefix[] = "mpnanny-";

// What an entry of ours may say, for any client: fields of these names are ours to change. A user's
// own env stays unless it holds nothing but what our bridge needs.
constexpr const char* kOurFields[] = {"type",    "command",   "args",    "url",
                                      "httpUrl", "serverUrl", "headers", "http_headers"};

Result<Json> Read(FileFormat format, const std::string& text) {
  if (format == FileFormat::kToml) return ReadToml(text);
  MPN_TRY_ASSIGN(const JsonText scanned, ScanJson(text));
  if (format == FileFormat::kJson && scanned.lenient_at != JsonPart::kNowhere) {
    const bool comma = text[scanned.lenient_at] == ',';
    return InvalidInput("line " + std::to_string(LineOf(text, scanned.lenient_at)) + ": " +
                        (comma ? "a comma behind the last value" : "a comment") +
                        ", which this client does not read.");
  }
  Json all = ValueOf(text, scanned.root);
  if (all.is_null() && scanned.root.kind == JsonPart::Kind::kNone) return Json::object();
  if (!all.is_object()) {
    return InvalidInput("line " + std::to_string(LineOf(text, scanned.root.value)) +
                        ": the file is no object.");
  }
  return all;
}

bool IsOurInput(const Json& input) {
  return input.is_object() && input.contains("id") && input["id"].is_string() &&
         input["id"].get<std::string>().starts_with(kInputPrefix);
}

// The changes that make `entry` say what `wanted` says: a null stands for a field to take out.
Json ChangesOf(const Json& entry, const Json& wanted) {
  Json changes = Json::object();
  for (const auto& [field, value] : wanted.items()) {
    if (!entry.contains(field) || entry[field] != value) changes[field] = value;
  }
  for (const char* field : kOurFields) {
    if (entry.contains(field) && !wanted.contains(field)) changes[field] = nullptr;
  }
  const Json& env = ValueAt(entry, {"env"});
  if (!wanted.contains("env") && env.size() == 1 && env.contains("AUTH_HEADER")) {
    changes["env"] = nullptr;  // our bridge's, with a token
  }
  return changes;
}

// Everything but what is ours, to see that an edit left it as it was.
Json Others(Json all) {
  for (auto& [key, value] : all.items()) {
    if (value.is_object()) value.erase(kServerName);
  }
  if (all.contains(kInputs) && all[kInputs].is_array()) {
    Json others = Json::array();
    for (const Json& input : all[kInputs]) {
      if (!IsOurInput(input)) others.push_back(input);
    }
    all[kInputs] = std::move(others);
  }
  Json out = Json::object();
  for (auto& [key, value] : all.items()) {
    if (!value.is_structured() || !value.empty()) out[key] = value;
  }
  return out;
}

// `edited`, if it differs from `text` in nothing but what is ours.
Result<std::string> Checked(FileFormat format, const std::string& text, std::string edited) {
  MPN_TRY_ASSIGN(const Json before, Read(format, text));
  const Result<Json> after = Read(format, edited);
  if (after && Others(before) == Others(*after)) return edited;
  return InvalidInput("the file is written in a way that mpnanny does not change safely.");
}

Result<std::string> WithJsonBlock(std::string text, const Json& all, const Json& block) {
  Result<std::string> edited = std::move(text);
  for (const auto& [key, value] : block.items()) {
    if (value.is_array()) {  // inputs
      const Json& there = ValueAt(all, {key.c_str()});
      for (const Json& input : value) {
        bool known = false;
        for (const Json& other : there) known = known || other == input;
        if (!known) edited = WithJsonElement(*edited, {key}, input);
        if (!edited) return edited;
      }
      continue;
    }
    const Json& wanted = value[kServerName];
    const Json& entry = ValueAt(all, {key.c_str(), kServerName});
    if (!entry.is_object()) {
      edited = WithJsonValue(*edited, {key, kServerName}, wanted);
      if (!edited) return edited;
      continue;
    }
    const Json changes = ChangesOf(entry, wanted);
    for (const auto& [field, change] : changes.items()) {
      const JsonPath path = {key, kServerName, field};
      edited =
          change.is_null() ? WithoutJsonValue(*edited, path) : WithJsonValue(*edited, path, change);
      if (!edited) return edited;
    }
  }
  return edited;
}

}  // namespace

std::string BlockText(FileFormat format, const Json& block) {
  if (format != FileFormat::kToml) return DumpJsonPretty(block) + "\n";
  std::string text;
  for (const auto& [key, value] : block.items()) {
    text += TomlTable({key, kServerName}, value[kServerName], "\n");
  }
  return text;
}

Result<Json> BlockIn(FileFormat format, const std::string& text, const std::string& key) {
  MPN_TRY_ASSIGN(const Json all, Read(format, text));
  const Json& entry = ValueAt(all, {key.c_str(), kServerName});
  Json block = Json::object();
  if (!entry.is_object()) return block;
  for (const Json& input : ValueAt(all, {kInputs})) {
    if (IsOurInput(input)) block[kInputs].push_back(input);
  }
  // TOML's reader sorts; this is the order in which an entry is written.
  Json& ordered = block[key][kServerName] = Json::object();
  if (format == FileFormat::kToml) {
    for (const char* field : kOurFields) {
      if (entry.contains(field)) ordered[field] = entry[field];
    }
  }
  for (const auto& [field, value] : entry.items()) ordered[field] = value;
  return block;
}

Result<std::string> WithBlock(FileFormat format, const std::string& text, const Json& block) {
  MPN_TRY_ASSIGN(const Json all, Read(format, text));
  Result<std::string> edited = text;
  if (format == FileFormat::kToml) {
    for (const auto& [key, value] : block.items()) {
      const Json& wanted = value[kServerName];
      const Json& entry = ValueAt(all, {key.c_str(), kServerName});
      const Json changes = entry.is_object() ? ChangesOf(entry, wanted) : wanted;
      if (!changes.empty()) edited = WithTomlTable(*edited, {key, kServerName}, changes);
      if (!edited) return edited;
    }
  } else {
    edited = WithJsonBlock(text, all, block);
  }
  if (!edited) return edited;
  return Checked(format, text, *std::move(edited));
}

Result<std::string> WithoutBlock(FileFormat format, const std::string& text, const std::string& key,
                                 bool with_key) {
  MPN_TRY_ASSIGN(const Json all, Read(format, text));
  Result<std::string> edited = text;
  if (format == FileFormat::kToml) {
    edited = WithoutTomlTable(text, {key, kServerName});
    if (!edited) return edited;
    return Checked(format, text, *std::move(edited));
  }
  edited = WithoutJsonValue(text, {key, kServerName});
  if (!edited) return edited;
  const Json& inputs = ValueAt(all, {kInputs});
  size_t ours = 0;
  for (size_t i = inputs.is_array() ? inputs.size() : 0; i > 0; --i) {
    if (!IsOurInput(inputs[i - 1])) continue;
    ++ours;
    edited = WithoutJsonElement(*edited, {kInputs}, i - 1);
    if (!edited) return edited;
  }
  if (ours > 0 && ours == inputs.size()) edited = WithoutJsonValue(*edited, {kInputs});
  if (!edited) return edited;
  const Json& servers = ValueAt(all, {key.c_str()});
  if (with_key && servers.is_object() && servers.size() == 1 && servers.contains(kServerName)) {
    edited = WithoutJsonValue(*edited, {key});
    if (!edited) return edited;
  }
  return Checked(format, text, *std::move(edited));
}

bool SaysNothing(FileFormat format, const std::string& text) {
  if (format == FileFormat::kToml) {
    return text.find_first_not_of(" \t\r\n\xEF\xBB\xBF") == std::string::npos;
  }
  const Result<JsonText> scanned = ScanJson(text);
  if (!scanned || scanned->lenient_at != JsonPart::kNowhere)
    return false;  // comments say something
  return scanned->root.kind == JsonPart::Kind::kNone ||
         (scanned->root.kind == JsonPart::Kind::kObject && scanned->root.parts.empty());
}

bool HasKey(FileFormat format, const std::string& text, const std::string& key) {
  const Result<Json> all = Read(format, text);
  return all && all->is_object() && all->contains(key);
}

}  // namespace mpnanny
