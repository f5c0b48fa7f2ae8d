#include "base/trace.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "base/json.h"
#include "base/log.h"

namespace mpnanny {
namespace {

using Clock = std::chrono::steady_clock;

struct Trace {
  std::FILE* file = nullptr;  // null when tracing is off
  Clock::time_point origin;   // before every span's start: times in the file are never negative
};

// Never closed: spans may end in static destructors.
const Trace& TheTrace() {
  static const Trace trace = [] {
    Trace opened;
    const char* path = std::getenv("MPNANNY_TRACE");
    if (!path || !*path) return opened;
#ifdef _WIN32
    opened.file = std::fopen(path, "wN");
#else
    opened.file = std::fopen(path, "we");
#endif
    opened.origin = Clock::now();
    if (opened.file) {
      std::fputs("[\n", opened.file);
    } else {
      LogWarning("No trace: MPNANNY_TRACE=" + std::string(path) + ": " + std::strerror(errno) +
                 ".");
    }
    return opened;
  }();
  return trace;
}

}  // namespace

TraceSpan::TraceSpan(const char* name, std::string_view detail) : name_(name) {
  if (!TheTrace().file) return;
  detail_ = detail;
  start_ = Clock::now();
}

TraceSpan::~TraceSpan() {
  const auto& [file, origin] = TheTrace();
  if (!file) return;
  static std::mutex mutex;
  const auto micros = [](Clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  const Json event = {{"name", name_},
                      {"ph", "X"},
                      {"ts", micros(start_ - origin)},
                      {"dur", micros(Clock::now() - start_)},
                      {"pid", 1},
                      {"tid", std::hash<std::thread::id>()(std::this_thread::get_id()) % 100000},
                      {"args", {{"detail", detail_}}}};
  const std::string line = DumpJson(event) + ",\n";
  const std::lock_guard lock(mutex);
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace mpnanny
