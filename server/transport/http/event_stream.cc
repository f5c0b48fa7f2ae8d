#include "server/transport/http/event_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mpnanny {
namespace {

using Worth = StreamMessage::Worth;

Worth WorthOf(const Json& message) {
  const auto method = message.find("method");
  if (method == message.end() || message.contains("id")) return Worth::kNeeded;
  const bool passing = *method == "notifications/progress" || *method == "notifications/message";
  return passing ? Worth::kPassing : Worth::kNotice;
}

// Whether the message ends what it belongs to, and how.
StreamMessage Describe(const Json& message) {
  StreamMessage described;
  described.text = DumpJson(message);
  described.is_response = message.is_array() || !message.contains("method");
  if (!message.is_object()) return described;
  described.worth = WorthOf(message);
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
    Bound();
  } else if (UnreadCount() > 1 && unread_bytes_ > limits_.unread_bytes) {
    cut_ = true;
    gone_ = true;
    messages_.clear();
  }
  Wake();
}

// Drops what can be done without while too much is kept, and tells the meter.
void EventStream::Bound() {
  if (!keep_) return;
  while (bytes_ > limits_.kept_bytes && (DropOne(Worth::kPassing) || DropOne(Worth::kNotice))) {
  }
  if (meter_) meter_->Change(std::exchange(counted_, bytes_), bytes_);
}

// The oldest one of this worth; but not the newest of all, nor one that a reader waits for.
bool EventStream::DropOne(Worth worth) {
  const size_t end = std::min(wake_ ? taken_ : messages_.size(), messages_.size() - 1);
  for (size_t i = 0; i < end; ++i) {
    if (messages_[i].worth != worth) continue;
    Drop(i);
    return true;
  }
  return false;
}

void EventStream::Drop(size_t index) {
  const StreamMessage& message = messages_[index];
  if (message.worth != Worth::kPassing) lost_ = std::max(lost_, message.number);
  bytes_ -= message.text.size();
  if (index < taken_) {
    --taken_;
  } else {
    unread_bytes_ -= message.text.size();
  }
  messages_.erase(std::next(messages_.begin(), static_cast<std::ptrdiff_t>(index)));
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
  return AttachLocked(wake);
}

std::optional<uint64_t> EventStream::AttachAfter(WakeEvent& wake, uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number > sent_ || number < lost_) return std::nullopt;
  taken_ = 0;
  unread_bytes_ = bytes_;
  while (taken_ < messages_.size() && messages_[taken_].number <= number) {
    unread_bytes_ -= messages_[taken_].text.size();
    ++taken_;
  }
  return AttachLocked(wake);
}

uint64_t EventStream::AttachLocked(WakeEvent& wake) {
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
  Bound();
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
    Bound();
  } else {
    bytes_ -= next.text.size();
    message = std::move(next);
    messages_.pop_front();
  }
  return Next::kMessage;
}

void EventStream::Keep(const StreamMessage* taken, std::shared_ptr<KeptBytes> meter) {
  const std::lock_guard lock(mutex_);
  keep_ = true;
  meter_ = std::move(meter);
  if (taken) {
    messages_.push_front(*taken);
    taken_ = 1;
    bytes_ += taken->text.size();
  }
  Bound();
}

void EventStream::Uncount() {
  const std::lock_guard lock(mutex_);
  if (meter_) meter_->Change(counted_, 0);
  meter_ = nullptr;
}

uint64_t EventStream::position() const {
  const std::lock_guard lock(mutex_);
  return UnreadCount() > 0 ? messages_[taken_].number - 1 : sent_;
}

bool EventStream::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool EventStream::finished() const {
  const std::lock_guard lock(mutex_);
  return ended_ && UnreadCount() == 0;
}

}  // namespace mpnanny
