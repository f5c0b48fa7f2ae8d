// How results, errors and progress look in each revision: one dispatcher, two codecs.
//
// Handlers write what the newest revision knows; encoding takes away what the client's revision
// does not have and adds what only it wants. No other file compares revisions to shape an answer.
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_PROTOCOL_CODEC_H_
#define MPNANNY_SERVER_PROTOCOL_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/protocol/jsonrpc.h"
#include "server/protocol/versions.h"

namespace mpnanny {

// How long and by whom a result may be kept. Only what is the same for every caller is public.
struct CacheHint {
  int64_t ttl_ms = 0;
  bool is_public = false;
};

// `result` is the method's result in its fullest form; `server_info` is our Implementation object.
Json EncodeResult(Revision revision, std::string_view method, Json result,
                  const std::optional<CacheHint>& cache, const Json& server_info);

WireError EncodeError(Revision revision, WireError error);

// The params of notifications/progress.
Json EncodeProgress(Revision revision, const Json& token, double progress,
                    std::optional<double> total, const std::string& message);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PROTOCOL_CODEC_H_
