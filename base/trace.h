// The one trace switch: MPNANNY_TRACE=file writes a Chrome trace (chrome://tracing,
// ui.perfetto.dev).
//
// A span costs two looks at a constant when tracing is off: `detail` is copied only when it is on.
// A file that cannot be written is a warning in the log. Thread-safe; the file is complete after
// every span, since the format allows the closing bracket to be missing.
#ifndef MPNANNY_BASE_TRACE_H_
#define MPNANNY_BASE_TRACE_H_

#include <chrono>
#include <string>
#include <string_view>

namespace mpnanny {

class TraceSpan {
 public:
  explicit TraceSpan(const char* name, std::string_view detail = "");
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* name_;
  std::string detail_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_TRACE_H_
