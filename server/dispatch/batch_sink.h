// The answers to a JSON-RPC batch, put together.
//
// Shared by the batch's calls, on whatever threads they end. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_BATCH_SINK_H_
#define MPNANNY_SERVER_DISPATCH_BATCH_SINK_H_

#include <memory>
#include <mutex>
#include <utility>

#include "base/json.h"
#include "server/transport/transport.h"

namespace mpnanny {

// Messages in one batch: two bytes of a batch can cost a hundred in answers.
inline constexpr size_t kMaxBatch = 1000;

// Collects the answers to a batch; the last of its calls to let go of it sends them together.
// Everything that is no answer (progress) goes out at once.
class BatchSink : public MessageSink {
 public:
  explicit BatchSink(std::shared_ptr<MessageSink> out) : out_(std::move(out)) {}
  ~BatchSink() override {
    if (!answers_.empty()) out_->Send(answers_);
  }

  void Send(const Json& message) override {
    if (message.contains("method")) {
      out_->Send(message);
      return;
    }
    const std::lock_guard lock(mutex_);
    answers_.push_back(message);
  }

  void Suspend() override { out_->Suspend(); }

 private:
  const std::shared_ptr<MessageSink> out_;
  std::mutex mutex_;
  Json answers_ = Json::array();  // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_BATCH_SINK_H_
