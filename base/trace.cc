#include "base/trace.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/json.h"

namespace mpnanny {
namespace {

using Clock = std::chrono::steady_clock;

// The trace file, or null when tracing is off. Never closed: spans may end in static destructors.
std::FILE* TraceFile() {
  static std::FILE* const file = [] {
    const char* path = std::getenv("MPNANNY_TRACE");
    std::FILE* opened = path && *path ? std::fopen(path, "we") : nullptr;
    if (opened) std::fputs("[\n", opened);
    return opened;
  }();
  return file;
}

}  // namespace

TraceSpan::TraceSpan(const char* name, std::string detail) : name_(name) {
  if (!TraceFile()) return;
  detail_ = std::move(detail);
  start_ = Clock::now();
}

TraceSpan::~TraceSpan() {
  std::FILE* const file = TraceFile();
  if (!file) return;
  static std::mutex mutex;
  static const Clock::time_point origin = Clock::now();
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
