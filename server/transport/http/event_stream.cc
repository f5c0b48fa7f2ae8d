#include "server/transport/http/event_stream.h"

namespace mpnanny {
namespace {

// Whether the message ends what it belongs to, and how.
StreamMessage Describe(const Json& message) {
  StreamMessage described;
  described.text = DumpJson(message);
  described.is_response = message.is_array() || !message.contains("method");
  if (!message.is_object()) return described;
  if (const auto error = message.find("error"); error != message.end() && error->is_object()) {
    described.error_code = error->value("code", 0);
  }
  return described;
}

}  // namespace

void EventStream::Send(const Json& message) {
  StreamMessage described = Describe(message);
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  described.number = ++sent_;
  bytes_ += described.text.size();
  unread_bytes_ += described.text.size();
  messages_.push_back(std::move(described));
  if (keep_) {
    if (UnreadCount() > 1 && unread_bytes_ > limits_.unread_bytes && wake_) cut_ = true;
    while (messages_.size() > 1 && bytes_ > limits_.kept_bytes && (taken_ > 0 || !wake_)) {
      DropFirst();
    }
  } else if (UnreadCount() > 1 && unread_bytes_ > limits_.unread_bytes) {
    cut_ = true;
    gone_ = true;
    messages_.clear();
  }
  Wake();
}

void EventStream::DropFirst() {
  bytes_ -= messages_.front().text.size();
  if (taken_ > 0) {
    --taken_;
  } else {
    unread_bytes_ -= messages_.front().text.size();
  }
  messages_.pop_front();
}

void EventStream::Suspend() {
  const std::lock_guard lock(mutex_);
  if (!wake_ && reader_ > 0) return;  // nobody's answer is to be ended
  suspended_ = true;
  Wake();
}

void EventStream::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  Wake();
}

uint64_t EventStream::Attach(WakeEvent& wake) {
  const std::lock_guard lock(mutex_);
  Wake();  // the reader before, if there is one, finds itself replaced
  wake_ = &wake;
  if (reader_ > 0) suspended_ = false;  // that was for the reader before
  cut_ = cut_ && gone_;
  return ++reader_;
}

void EventStream::Detach(uint64_t reader) {
  const std::lock_guard lock(mutex_);
  if (reader != reader_) return;
  wake_ = nullptr;
  if (!keep_) {
    gone_ = true;
    messages_.clear();
  }
}

EventStream::Next EventStream::Take(uint64_t reader, StreamMessage& message) {
  const std::lock_guard lock(mutex_);
  if (reader != reader_) return Next::kReplaced;
  if (cut_) return Next::kCut;
  if (UnreadCount() == 0) {
    if (ended_) return Next::kEnd;
    return suspended_ ? Next::kSuspended : Next::kNothing;
  }
  StreamMessage& next = messages_[taken_];
  unread_bytes_ -= next.text.size();
  if (keep_) {
    message = next;
    ++taken_;
    while (messages_.size() > 1 && bytes_ > limits_.kept_bytes && taken_ > 0) DropFirst();
  } else {
    bytes_ -= next.text.size();
    message = std::move(next);
    messages_.pop_front();
  }
  return Next::kMessage;
}

void EventStream::Keep(const StreamMessage* taken) {
  const std::lock_guard lock(mutex_);
  keep_ = true;
  if (!taken) return;
  messages_.push_front(*taken);
  taken_ = 1;
  bytes_ += taken->text.size();
}

void EventStream::Rewind(uint64_t after) {
  const std::lock_guard lock(mutex_);
  taken_ = 0;
  unread_bytes_ = bytes_;
  while (taken_ < messages_.size() && messages_[taken_].number <= after) {
    unread_bytes_ -= messages_[taken_].text.size();
    ++taken_;
  }
}

uint64_t EventStream::position() const {
  const std::lock_guard lock(mutex_);
  return sent_ - UnreadCount();
}

bool EventStream::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace mpnanny
