#include "base/front_matter.h"
#include "base/text.h"
#include "tools/tool.h"

namespace mpnanny::query_alerts {
namespace {

constexpr std::string_view kFolder = "monitor/alerts/";
constexpr std::string_view kExtension = ".md";

std::vector<std::string> Types(const DataFiles& data) {
  std::vector<std::string> types;
  for (const std::string& path : data.List(kFolder, kExtension)) {
    types.push_back(path.substr(kFolder.size(), path.size() - kFolder.size() - kExtension.size()));
  }
  return types;
}

// The text of a front matter's field, or "".
std::string Field(const FrontMatter& page, const char* key) {
  const auto it = page.fields.find(key);
  return it != page.fields.end() && it->is_string() ? it->get<std::string>() : "";
}

std::vector<ResourceTemplate::Entry> List(const ToolContext& context) {
  std::vector<ResourceTemplate::Entry> entries;
  for (const std::string& type : Types(context.data)) {
    const std::string path = std::string(kFolder) + type + std::string(kExtension);
    ResourceTemplate::Entry entry{type, type, ""};
    if (auto page = ParseFrontMatter(*context.data.Read(path), path)) {
      entry.description = Field(*page, "title");
      if (entry.description.empty()) entry.description = Field(*page, "fires_when");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::string> Read(const std::string& type, const ToolContext& context) {
  const auto page = context.data.Read(std::string(kFolder) + type + std::string(kExtension));
  if (page) return std::string(*page);
  return NoSuchName("alert type", type, Types(context.data));
}

}  // namespace

ResourceTemplate MakeResourceTemplate() {
  ResourceTemplate resource;
  resource.uri_template = "mpnanny://alerts/{type}";
  resource.variable = "type";
  resource.name = "alert-type";
  resource.title = "Explanation of an alert type";
  resource.description =
      "What an alert of the monitor means, when it fires, where its limit comes from, what to do.";
  resource.most_listed = 10;
  resource.list = List;
  resource.read = Read;
  return resource;
}

}  // namespace mpnanny::query_alerts
