// The one trace switch: MPNANNY_TRACE=file writes a Chrome trace (chrome://tracing,
// ui.perfetto.dev).
//
// Spans cost one relaxed load when tracing is off. Thread-safe; the file is complete after every
// span, since the format allows the closing bracket to be missing.
#ifndef MPNANNY_BASE_TRACE_H_
#define MPNANNY_BASE_TRACE_H_

#include <chrono>
#include <string>

namespace mpnanny {

class TraceSpan {
 public:
  explicit TraceSpan(const char* name, std::string detail = "");
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
