// URIs of a resource family: a template with one variable, whose value is percent-encoded.
//
// Free functions without state. No regular expressions: a URI comes from the client.
#ifndef MPNANNY_SERVER_METHODS_RESOURCE_URI_H_
#define MPNANNY_SERVER_METHODS_RESOURCE_URI_H_

#include <optional>
#include <string>
#include <string_view>

#include "tools/tool.h"

namespace mpnanny {

std::string ResourceUri(const ResourceTemplate& family, std::string_view value);

// The variable's value in `uri`, decoded; nullopt if `uri` is none of the family's. A value whose
// slashes are not encoded is taken as well: models write paths as they are.
std::optional<std::string> MatchResourceUri(const ResourceTemplate& family, std::string_view uri);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_METHODS_RESOURCE_URI_H_
