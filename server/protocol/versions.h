// The protocol revisions that we speak, and which of them a message is written in.
//
// Revision 2026-07-28 ("modern") is stateless: every request carries its revision in params._meta.
// The four older ones
// ("legacy") agree on it once, by `initialize`. The era is decided for each message by itself and
// never locked: real clients send `initialize` after `server/discover` on one connection. Plain
// values and free functions.
#ifndef MPNANNY_SERVER_PROTOCOL_VERSIONS_H_
#define MPNANNY_SERVER_PROTOCOL_VERSIONS_H_

#include <optional>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "server/protocol/jsonrpc.h"
#include "server/protocol/log_level.h"

namespace mpnanny {

// Where in params._meta a modern request says its revision, and what it says of the client.
inline constexpr char kMetaVersionKey[] = "io.modelcontextprotocol/protocolVersion";
inline constexpr char kMetaCapabilitiesKey[] = "io.modelcontextprotocol/clientCapabilities";
inline constexpr char kMetaClientInfoKey[] = "io.modelcontextprotocol/clientInfo";

// In the order of their dates, so that "since" is a comparison.
enum class Revision { k2024_11_05, k2025_03_26, k2025_06_18, k2025_11_25, k2026_07_28 };

inline constexpr Revision kNewestLegacy = Revision::k2025_11_25;

constexpr bool IsModern(Revision revision) { return revision >= Revision::k2026_07_28; }

// "2025-06-18".
std::string_view RevisionName(Revision revision);

// The revision that answers `initialize`: the one asked for if it is a legacy one that we speak,
// else our newest legacy.
Revision NegotiateLegacy(std::string_view asked);

// What server/discover and error -32022 list. Modern ones only: a legacy date in the list would
// invite clients to put it into _meta, where it has to be refused.
Json SupportedModernRevisions();

// True if the request belongs to the modern era: its _meta has a field that only modern requests
// have, or the method exists in that era only (server/discover, subscriptions/listen).
bool IsModernRequest(std::string_view method, const Json& params);

// JSON-RPC batches exist in this revision.
constexpr bool HasBatches(Revision revision) { return revision == Revision::k2025_03_26; }

// What a request says about itself in params._meta.
struct Envelope {
  Revision revision = kNewestLegacy;
  Json client_capabilities = Json::object();
  Json progress_token = nullptr;  // string or integer; null when no progress is wanted
  std::optional<LogLevel> log_level = std::nullopt;  // the least that is sent; none: nothing is
};

// Reads a modern request's envelope; its error is -32602 or -32022.
std::variant<Envelope, WireError> ReadModernEnvelope(const Json& params);

// Reads a legacy request's envelope. `agreed`: what `initialize` and logging/setLevel settled.
std::variant<Envelope, WireError> ReadLegacyEnvelope(const Json& params, Envelope agreed);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PROTOCOL_VERSIONS_H_
