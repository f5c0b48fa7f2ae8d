#include "server/methods/resource_uri.h"

#include "base/run_handle.h"

namespace mpnanny {
namespace {

struct Around {
  std::string_view before;
  std::string_view after;
};

Around Split(const ResourceTemplate& family) {
  const std::string_view whole = family.uri_template;
  const size_t open = whole.find('{');
  const size_t close = whole.find('}');
  if (open == std::string_view::npos || close == std::string_view::npos) return {whole, ""};
  return {whole.substr(0, open), whole.substr(close + 1)};
}

}  // namespace

std::string ResourceUri(const ResourceTemplate& family, std::string_view value) {
  const Around around = Split(family);
  return std::string(around.before) + PercentEncode(value) + std::string(around.after);
}

std::optional<std::string> MatchResourceUri(const ResourceTemplate& family, std::string_view uri) {
  const Around around = Split(family);
  if (uri.size() <= around.before.size() + around.after.size()) return std::nullopt;
  if (!uri.starts_with(around.before) || !uri.ends_with(around.after)) return std::nullopt;
  uri.remove_prefix(around.before.size());
  uri.remove_suffix(around.after.size());
  return PercentDecode(uri);
}

}  // namespace mpnanny
