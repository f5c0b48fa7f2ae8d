// mpnanny-worker: the process that may load LibTorch and run models. It is the only program that
// includes torch headers.
//
// Models are programs and crash, and loading libtorch takes a quarter of a second and 100 MB: both
// stay out of the server. One request at a time, on one thread; ends when stdin ends.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/descriptors.h"
#include "base/json.h"
#include "base/stop_event.h"
#include "base/text.h"
#include "tools/worker/protocol.h"

namespace mpnanny::worker {
namespace {

constexpr size_t kMaxLine = 16u << 20;

Json ErrorAnswer(const Error& error) {
  return {{"error", {{"kind", ErrorKindName(error.kind)}, {"message", error.Text()}}}};
}

class Session {
 public:
  Json Answer(const std::string& line) {
    const auto request = ParseJson(line);
    if (!request) return ErrorAnswer(request.error());
    const auto op = request->is_object() ? request->find("op") : request->end();
    if (op == request->end() || !op->is_string()) {
      return ErrorAnswer(InvalidInput("A request is an object with \"op\"."));
    }
    if (*op == "hello") return Hello(*request);
    if (!greeted_) return ErrorAnswer(InvalidInput("The first request must be hello."));
    return ErrorAnswer(
        InvalidInput("Unknown op '" + EscapeControl(op->get<std::string>(), 60) + "'.",
                     "This worker knows: hello."));
  }

 private:
  Json Hello(const Json& request) {
    if (!request.contains("protocol") || request["protocol"] != kProtocol) {
      return ErrorAnswer(
          InvalidInput("This worker speaks protocol " + std::to_string(kProtocol) + "."));
    }
    greeted_ = true;
    return {{"protocol", kProtocol},
            {"torch", TORCH_VERSION},
            {"cpu_capability", at::get_cpu_capability()},
            {"threads", at::get_num_threads()}};
  }

  bool greeted_ = false;
};

int Run() {
  // Before the first operator: a process that has run one with several threads cannot be forked
  // safely any more.
  at::set_num_threads(1);
  const auto streams = TakeStandardStreams();
  if (!streams) {
    std::fprintf(stderr, "mpnanny-worker: %s\n", streams.error().Text().c_str());
    return 2;
  }
  const StopEvent stop;
  Session session;
  std::string pending;
  char chunk[1 << 16];
  while (true) {
    const ReadOutcome got = ReadSome(streams->in, chunk, sizeof(chunk), stop);
    if (got.status != ReadStatus::kData) return 0;
    pending.append(chunk, got.bytes);
    for (size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      const std::string line = pending.substr(0, end);
      pending.erase(0, end + 1);
      if (!WriteWhole(streams->out, DumpJson(session.Answer(line)) + "\n", stop)) return 0;
    }
    if (pending.size() > kMaxLine) {
      std::fprintf(stderr, "mpnanny-worker: a request is longer than %zu bytes\n", kMaxLine);
      return 2;
    }
  }
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
