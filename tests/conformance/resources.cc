// Resources: text, bytes, one that can be watched, and a family.
#include "tests/conformance/fixtures.h"

namespace mpnanny::conformance {
namespace {

ServedResource Fixed(const std::string& uri, const std::string& title, Json contents) {
  ServedResource resource;
  resource.uri = uri;
  resource.name = uri.substr(std::string("test://").size());
  resource.title = title;
  resource.description = title + " of the conformance tests.";
  resource.mime_type = contents.value("mimeType", "");
  resource.is_public = true;
  resource.read = [contents](const RequestContext&) -> Outcome {
    return MethodResult{{{"contents", Json::array({contents})}}};
  };
  return resource;
}

}  // namespace

std::vector<ServedResource> FixedResources() {
  return {
      Fixed("test://static-text", "A text",
            TextResource("test://static-text", "text/plain",
                         "This is the content of the static text resource.")),
      Fixed("test://static-binary", "An image",
            {{"uri", "test://static-binary"}, {"mimeType", "image/png"}, {"blob", PngBase64()}}),
      Fixed(kWatchedUri, "A text that can be watched",
            TextResource(kWatchedUri, "text/plain", "Watched resource content"))};
}

std::vector<ResourceTemplate> ResourceFamilies() {
  ResourceTemplate family;
  family.uri_template = "test://template/{id}/data";
  family.variable = "id";
  family.name = "template";
  family.title = "A family of resources";
  family.description = "Any id makes one.";
  family.mime_type = "application/json";
  family.read = [](const std::string& id, const ToolContext&) -> Result<std::string> {
    return DumpJson({{"id", id}, {"templateTest", true}, {"data", "Data for ID: " + id}});
  };
  return {family};
}

}  // namespace mpnanny::conformance
