// What the headers of a modern request must repeat of its body, and whether they do.
//
// Intermediaries route by the headers and the server acts by the body, so a request in which they
// differ is refused. Free functions and plain values; safe from any thread.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_HEADER_RULES_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_HEADER_RULES_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/protocol/jsonrpc.h"

namespace mpnanny {

inline const std::string kVersionHeader = "MCP-Protocol-Version";
inline const std::string kMethodHeader = "Mcp-Method";
inline const std::string kNameHeader = "Mcp-Name";
inline const std::string kSessionHeader = "Mcp-Session-Id";
inline const std::string kLastEventHeader = "Last-Event-ID";

// A header's value, or nullopt.
using HeaderLookup = std::function<std::optional<std::string_view>(const std::string& name)>;

// An argument that a tool's schema wants repeated in a header ("x-mcp-header").
struct MirroredArgument {
  std::vector<std::string> path;  // property names, from the outermost
  std::string header;
};
// By the tool's name.
using MirroredArguments = std::map<std::string, std::vector<MirroredArgument>, std::less<>>;

// Those of one tool.
std::vector<MirroredArgument> FindMirroredArguments(const Json& input_schema);

// Whether the message is one for the stateless path: it says so itself, or by a header that is no
// legacy revision's. Where a session header is given, only what stands in its _meta counts.
bool IsModernPost(const Json& message, std::optional<std::string_view> version_header,
                  bool in_session = false);

// Checks a modern request's envelope and headers. The error is -32020, -32602 or -32022, in the
// order that the specification's own servers look for them.
std::optional<WireError> CheckModernRequest(const Json& request, const HeaderLookup& header,
                                            const MirroredArguments& mirrored);

// True for the revisions that an MCP-Protocol-Version header of a legacy client may name.
bool IsLegacyRevision(std::string_view name);

// The text that a header value stands for: itself, or what "=?base64?…?=" encodes. nullopt if that
// is not base64, or the value is not ASCII: text beyond that must be encoded.
std::optional<std::string> DecodeHeaderValue(std::string_view value);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_HEADER_RULES_H_
