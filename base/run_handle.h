// A run handle: '<path>#<run id>', or a bare path for the newest run of that database.
//
// Plain value; free functions without state.
#ifndef MPNANNY_BASE_RUN_HANDLE_H_
#define MPNANNY_BASE_RUN_HANDLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny {

struct RunHandle {
  std::string path;
  std::optional<int64_t> run_id;  // absent: the newest run
};

// The last '#' followed by digits only, up to the end, is the run id; any other '#' belongs to the
// path.
RunHandle ParseRunHandle(std::string_view text);
std::string FormatRunHandle(const RunHandle& handle);

// RFC 3986 percent-encoding of everything but unreserved characters, and back ('%' without two hex
// digits stays).
std::string PercentEncode(std::string_view text);
std::string PercentDecode(std::string_view text);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_RUN_HANDLE_H_
