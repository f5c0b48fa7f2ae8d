// mpnanny-worker: the process that may load LibTorch and run models. It is the only program that
// includes torch headers.
//
// Models are programs and crash, and loading libtorch takes a quarter of a second and 100 MB: both
// stay out of the server. One request at a time, on one thread; each job runs in a child that is
// forked when libtorch is there already. Ends when stdin ends.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <torch/headeronly/version.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/confinement.h"
#include "base/descriptors.h"
#include "base/job_relay.h"
#include "base/json.h"
#include "base/stop_event.h"
#include "base/text.h"
#include "engines/worker/job.h"
#include "engines/worker/protocol.h"
#include "engines/worker/warm_up.h"

namespace mpnanny::worker {
namespace {

constexpr size_t kMaxLine = 16u << 20;
constexpr uint64_t kFileMb = 4096;  // a capture

Json ErrorAnswer(const Error& error) {
  return {{"error", {{"kind", ErrorKindName(error.kind)}, {"message", error.Text()}}}};
}

// Calls `take` with each line until that gives false or the stream ends. False where a line is too
// long.
bool ReadLines(int fd, const StopEvent& stop, const std::function<bool(const std::string&)>& take) {
  std::string pending;
  std::vector<char> chunk(1 << 16);
  while (pending.size() <= kMaxLine) {
    const ReadOutcome got = ReadSome(fd, chunk.data(), chunk.size(), stop);
    if (got.status != ReadStatus::kData) return true;
    pending.append(chunk.data(), got.bytes);
    size_t begin = 0;
    for (size_t end = pending.find('\n'); end != std::string::npos;
         end = pending.find('\n', begin)) {
      if (!take(pending.substr(begin, end - begin))) return true;
      begin = end + 1;
    }
    pending.erase(0, begin);
  }
  return false;
}

class Session {
 public:
  Session(const ProtocolStreams& streams, const StopEvent& stop) : streams_(streams), stop_(stop) {}

  // False once the server has closed our output.
  bool Answer(const std::string& line) {
    const auto request = ParseJson(line);
    if (!request) return Write(ErrorAnswer(request.error()));
    const Json& op = ValueAt(*request, {"op"});
    if (!op.is_string())
      return Write(ErrorAnswer(InvalidInput("A request is an object with \"op\".")));
    if (op == "hello") return Write(Hello(*request));
    if (!greeted_) return Write(ErrorAnswer(InvalidInput("The first request must be hello.")));
    if (op == "job") return Job(*request);
    return Write(
        ErrorAnswer(InvalidInput("Unknown op '" + EscapeControl(op.get<std::string>(), 60) + "'.",
                                 "This worker knows: hello, job.")));
  }

 private:
  bool Write(const Json& line) { return WriteWhole(streams_.out, DumpJson(line) + "\n", stop_); }

  Json Hello(const Json& request) {
    if (ValueAt(request, {"protocol"}) != kProtocol) {
      return ErrorAnswer(
          InvalidInput("This worker speaks protocol " + std::to_string(kProtocol) + "."));
    }
    greeted_ = true;
    return {{"protocol", kProtocol},
            {"torch", TORCH_VERSION},
            {"cpu_capability", at::get_cpu_capability()},
            {"threads", at::get_num_threads()}};
  }

  bool Job(const Json& asked) {
    const Json& request = ValueAt(asked, {"request"});
    const Json& writable = ValueAt(asked, {"writable"});
    const Json& seconds = ValueAt(asked, {"seconds"});
    const Json& memory = ValueAt(asked, {"memory_mb"});
    if (!request.is_object() || !writable.is_string() || !seconds.is_number_unsigned() ||
        !memory.is_number_unsigned()) {
      return Write(ErrorAnswer(
          InvalidInput("A job has \"request\", \"writable\", \"seconds\" and \"memory_mb\".")));
    }
    Confinement limits;
    limits.wall = std::chrono::seconds(seconds.get<uint64_t>());
    limits.memory_bytes = memory.get<uint64_t>() << 20;
    limits.processes = kProcesses;
    limits.file_bytes = kFileMb << 20;
    limits.writable = writable.get<std::string>();
    limits.allow_weaker = ValueAt(asked, {"allow_weaker"}) == true;
    // The supervisor enters namespaces of its own, which cannot be left: a process for each job.
    const bool read = RelayJob(streams_.out, StandardStreams::kOurs, [&](int told) -> Json {
      const auto end = RunConfinedCall(limits, told, [&] {
        const StopEvent never;  // the one from before the fork is closed
        RunJob(request, [&](const Json& line) { WriteWhole(told, DumpJson(line) + "\n", never); });
        return 0;
      });
      if (!end) return {{"error", end.error().Text()}};
      return EndJson(*end);
    });
    if (!std::exchange(warm_, true)) WarmUp();  // for those to come; nobody waits now
    return read;
  }

  const ProtocolStreams& streams_;
  const StopEvent& stop_;
  bool greeted_ = false;
  bool warm_ = false;
};

// torch's own warnings are for whoever writes the model.
class Silent : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

int Run() {
  WipeEnvironment();  // a job has the memory of this process
  static Silent silent;
  c10::WarningUtils::set_warning_handler(&silent);
  // Memory that results leave stays with the process: fetched from the kernel again for each
  // operator, it made a small ResNet's pass 8.0 ms instead of 4.7 (bench/worker/overhead.py).
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  // Before the first operator: a process that has run one with several threads cannot be forked
  // safely any more.
  at::set_num_threads(1);
  at::mm(at::ones({64, 64}),
         at::ones({64, 64}));  // what the first product prepares, children then have
  const auto streams = TakeStandardStreams();
  if (!streams) {
    std::fprintf(stderr, "mpnanny-worker: %s\n", streams.error().Text().c_str());
    return 2;
  }
  const StopEvent stop;
  Session session(*streams, stop);
  if (ReadLines(streams->in, stop, [&](const std::string& line) { return session.Answer(line); }))
    return 0;
  std::fprintf(stderr, "mpnanny-worker: a request is longer than %zu bytes\n", kMaxLine);
  return 2;
}

}  // namespace
}  // namespace mpnanny::worker

int main() {
  if (!std::getenv(mpnanny::worker::kStartedByUs)) {
    std::fputs("mpnanny-worker is started by mpnanny to run models; it is of no use by hand.\n",
               stderr);
    return 2;
  }
  return mpnanny::worker::Run();
}
