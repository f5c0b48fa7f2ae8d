#include "server/transport/stdio.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/protocol/error_codes.h"
#include "server/protocol/jsonrpc.h"

namespace mpnanny {
namespace {

constexpr size_t kReadBytes = 64u << 10;

// Cuts a stream of bytes into lines of bounded length.
class LineSplitter {
 public:
  explicit LineSplitter(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Calls on_line(line) for every line that `bytes` completes and on_too_long() once for a line
  // that grows too long.
  template <typename OnLine, typename OnTooLong>
  void Push(std::string_view bytes, const OnLine& on_line, const OnTooLong& on_too_long) {
    while (!bytes.empty()) {
      const size_t newline = bytes.find('\n');
      const std::string_view part = bytes.substr(0, newline);
      if (!skipping_ && partial_.size() + part.size() > max_bytes_) {
        skipping_ = true;
        partial_ = std::string();  // gives the memory back
        on_too_long();
      }
      if (newline == std::string_view::npos) {
        if (!skipping_) partial_ += part;
        return;
      }
      if (skipping_) {
        skipping_ = false;
      } else if (partial_.empty()) {
        on_line(part);
      } else {
        partial_ += part;
        on_line(std::string_view(partial_));
        partial_.clear();
        if (partial_.capacity() > kReadBytes) partial_.shrink_to_fit();
      }
      bytes.remove_prefix(newline + 1);
    }
  }

  // What came after the last newline.
  std::string_view rest() const { return partial_; }

 private:
  size_t max_bytes_;
  std::string partial_;
  bool skipping_ = false;
};

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

class StdioTransport::Sink : public MessageSink {
 public:
  Sink(int fd, StopEvent& stop) : fd_(fd), stop_(stop) {}

  void Send(const Json& message) override {
    const std::string line = DumpJson(message) + "\n";
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    if (!WriteWhole(fd_, line, stop_)) {
      gone_ = true;
      stop_.Request();  // nobody reads our answers: there is nothing left to do
    }
  }

 private:
  int fd_;
  StopEvent& stop_;
  std::mutex mutex_;
  bool gone_ = false;  // guarded by mutex_
};

StdioTransport::StdioTransport(ProtocolStreams streams, StopEvent& stop, size_t max_line_bytes)
    : streams_(streams),
      stop_(stop),
      max_line_bytes_(max_line_bytes),
      sink_(std::make_shared<Sink>(streams.out, stop)) {}

std::shared_ptr<MessageSink> StdioTransport::sink() const { return sink_; }

StdioEnd StdioTransport::Run(const MessageHandler& handler) {
  LineSplitter lines(max_line_bytes_);
  const std::shared_ptr<MessageSink> sink = sink_;
  const auto on_line = [&](std::string_view line) {
    if (!IsBlank(line)) handler(line, sink);
  };
  const auto on_too_long = [&] {
    sink->Send(ErrorResponse(std::nullopt, {kInvalidRequest, "The message is longer than " +
                                                                 std::to_string(max_line_bytes_) +
                                                                 " bytes. Send less at once."}));
  };
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const ReadOutcome read = ReadSome(streams_.in, buffer.data(), buffer.size(), stop_);
    if (read.status == ReadStatus::kStopped) return StdioEnd::kStopped;
    if (read.status == ReadStatus::kEnd) break;
    lines.Push({buffer.data(), read.bytes}, on_line, on_too_long);
  }
  on_line(lines.rest());
  return StdioEnd::kEndOfInput;
}

}  // namespace mpnanny
