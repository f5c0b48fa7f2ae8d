// Text in other encodings than UTF-8.
//
// Free function without state; safe from any thread.
#ifndef MPNANNY_BASE_TEXT_ENCODING_H_
#define MPNANNY_BASE_TEXT_ENCODING_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny {

// `bytes` as UTF-8. InvalidInput for an encoding that the system does not know and for bytes that
// are none of it.
Result<std::string> ToUtf8(std::string_view bytes, const std::string& encoding);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_TEXT_ENCODING_H_
