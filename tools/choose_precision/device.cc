#include "tools/choose_precision/device.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/text.h"
#include "engines/python_code/fields.h"

namespace mpnanny::choose_precision {
namespace {

using python_code::ListAt;
using python_code::TextAt;

constexpr const char* kFormats[] = {"fp16", "bf16", "tf32", "fp8"};

std::string Plain(std::string_view words) {
  std::string plain;
  for (const char c : words) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

// True if `words` holds `name` as drivers write it, not as the end of a number ("a10" in "ga100").
bool Holds(const std::string& words, const std::string& name) {
  const size_t at = words.find(name);
  return name.size() >= 2 && at != std::string::npos &&
         (at == 0 || std::isdigit(static_cast<unsigned char>(words[at - 1])) == 0);
}

// Its row's name: one that it is called by, else the longest that it holds.
std::optional<std::string> Match(const std::string& wanted, const Json& rows) {
  std::string best;
  size_t length = 0;
  for (const auto& [name, row] : rows.items()) {
    std::vector<std::string> called = {Plain(name)};
    for (const Json& alias : ListAt(row, "aliases"))
      called.push_back(Plain(alias.get<std::string>()));
    for (const std::string& each : called) {
      if (each == wanted) return name;
      if (each.size() > length && Holds(wanted, each)) {
        best = name;
        length = each.size();
      }
    }
  }
  return best.empty() ? std::nullopt : std::optional(best);
}

Json Rows(const DataFiles& data) {
  const auto text = data.Read("tools/choose_precision/devices.json");
  auto table = ParseJson(text.value_or("{}"));
  return table && table->is_object() ? table->value("devices", Json::object()) : Json::object();
}

// ROCm calls itself cuda in torch.
std::string Type(const Json& row, const char* key) {
  std::string type = TextAt(row, key);
  return type == "rocm" ? "cuda" : type;
}

std::optional<Device> Find(const Json& rows, std::string_view words) {
  const auto name = Match(Plain(words), rows);
  if (!name) return std::nullopt;
  const Json& row = rows[*name];
  Device device{*name, TextAt(row, "title"), Type(row, "kind"), {}, {}, TextAt(row, "source")};
  for (const char* format : kFormats) {
    const Json peak = row.value("tflops", Json::object()).value(format, Json());
    if (peak.is_number()) device.has[format] = peak.get<double>() > 0;
  }
  for (const Json& note : ListAt(row, "notes")) device.notes.push_back(note.get<std::string>());
  return device;
}

}  // namespace

Result<Device> FindDevice(const DataFiles& data, std::string_view words) {
  const Json rows = Rows(data);
  if (auto device = Find(rows, words)) return *std::move(device);
  std::vector<std::string> known;
  for (const auto& [name, row] : rows.items()) known.push_back(name);
  return InvalidInput(
      "Nothing is known of the device '" + EscapeControl(std::string(words), 100) + "'.",
      "Known are " + Join(known, ", ") + ".");
}

Device RecordedDevice(const DataFiles& data, const Json& environment) {
  const Json& devices = ListAt(environment, "devices");
  const Json* found = nullptr;
  for (const Json& each : devices) {
    if (each.is_object() && (found == nullptr || TextAt(*found, "type") == "cpu")) found = &each;
  }
  if (found == nullptr) return {"", "a device that the run did not record", "", {}, {}, ""};
  if (const std::string title = TextAt(*found, "name"); !title.empty()) {
    if (auto device = Find(Rows(data), title)) {
      device->title = title;
      return *std::move(device);
    }
  }
  const std::string type = Type(*found, "type");
  Device device{"", TextAt(*found, "name"), type, {}, {}, ""};
  if (device.title.empty()) device.title = "the run's " + (type.empty() ? "device" : type);
  // Of a CPU `fp16` and `bf16` say that torch computes in them, `native` that the processor does.
  if (type == "cpu") return device;
  for (const char* format : kFormats) {
    const auto has = found->find(format);
    if (has != found->end() && has->is_boolean()) device.has[format] = has->get<bool>();
  }
  return device;
}

Json DeviceJson(const Device& device) {
  Json formats = Json::object();
  for (const char* format : kFormats) {
    const auto has = device.has.find(format);
    formats[format] = has == device.has.end() ? Json() : Json(has->second);
  }
  Json json = {{"name", device.name.empty() ? Json() : Json(device.name)},
               {"title", EscapeControl(device.title, 200)},
               {"formats", std::move(formats)},
               {"notes", device.notes}};
  if (!device.source.empty()) json["source"] = device.source;
  return json;
}

}  // namespace mpnanny::choose_precision
