// Every numeric error code of the program. Meanings: specification 2026-07-28, "Error Codes";
// what
// only one era knows is translated for the other (codec.cc).
#ifndef MPNANNY_SERVER_PROTOCOL_ERROR_CODES_H_
#define MPNANNY_SERVER_PROTOCOL_ERROR_CODES_H_

namespace mpnanny {

inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;
inline constexpr int kResourceNotFound = -32002;
inline constexpr int kHeaderMismatch = -32020;
inline constexpr int kMissingClientCapability = -32021;
inline constexpr int kUnsupportedProtocolVersion = -32022;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PROTOCOL_ERROR_CODES_H_
