#include "server/http/sessions.h"

#include <algorithm>
#include <vector>

#include "base/random_id.h"

namespace mpnanny {
namespace {

constexpr std::chrono::seconds kSweepEvery{30};

std::shared_ptr<EventStream> OwnStream() {
  auto stream = std::make_shared<EventStream>(StreamLimits{.kept_bytes = 256u << 10});
  stream->Keep();
  return stream;
}

}  // namespace

Session::Session(size_t kept_streams)
    : id_(RandomId()),
      kept_streams_(kept_streams),
      own_stream_(OwnStream()),
      connection_(std::make_shared<Connection>(std::make_shared<StreamSink>(own_stream_))) {}

uint64_t Session::Keep(std::shared_ptr<EventStream> stream, const StreamMessage* taken) {
  stream->Keep(taken);
  const std::lock_guard lock(mutex_);
  if (streams_.size() >= kept_streams_) {
    const auto ended = std::find_if(streams_.begin(), streams_.end(),
                                    [](const auto& each) { return each.second->ended(); });
    streams_.erase(ended == streams_.end() ? streams_.begin() : ended);
  }
  streams_.emplace_back(++last_number_, std::move(stream));
  return last_number_;
}

std::shared_ptr<EventStream> Session::Find(uint64_t number) {
  if (number == kOwnStream) return own_stream_;
  const std::lock_guard lock(mutex_);
  for (const auto& [each, stream] : streams_) {
    if (each == number) return stream;
  }
  return nullptr;
}

void Session::EndStreams() {
  own_stream_->End();
  const std::lock_guard lock(mutex_);
  for (const auto& [number, stream] : streams_) stream->End();
}

Sessions::Sessions(SessionLimits limits, std::function<void(Session&)> on_end)
    : limits_(limits), on_end_(std::move(on_end)) {}

Sessions::Use Sessions::Hold(const std::shared_ptr<Session>& session) {
  ++session->users_;
  return Use(session.get(), [session, mutex = mutex_](Session* used) {
    const std::lock_guard lock(*mutex);
    --used->users_;
    used->last_use_ = Clock::now();
  });
}

Sessions::Use Sessions::Create() {
  const auto session = std::make_shared<Session>(limits_.kept_streams);
  const std::lock_guard lock(*mutex_);
  return Hold(session);
}

bool Sessions::Admit(const Use& session) {
  EndIdle(/*make_room=*/true);
  const std::lock_guard lock(*mutex_);
  if (sessions_.size() >= limits_.most) return false;
  sessions_.emplace(session->id(), session->shared_from_this());
  return true;
}

Sessions::Use Sessions::Find(std::string_view id) {
  bool sweep = false;
  {
    const std::lock_guard lock(*mutex_);
    sweep = Clock::now() >= next_sweep_;
  }
  if (sweep) EndIdle(/*make_room=*/false);
  const std::lock_guard lock(*mutex_);
  const auto found = sessions_.find(std::string(id));
  return found == sessions_.end() ? nullptr : Hold(found->second);
}

void Sessions::End(const std::string& id) {
  std::shared_ptr<Session> ended;
  {
    const std::lock_guard lock(*mutex_);
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    ended = std::move(found->second);
    sessions_.erase(found);
  }
  on_end_(*ended);
}

void Sessions::EndAll() {
  std::unordered_map<std::string, std::shared_ptr<Session>> ended;
  {
    const std::lock_guard lock(*mutex_);
    ended.swap(sessions_);
  }
  for (const auto& [id, session] : ended) on_end_(*session);
}

void Sessions::EndIdle(bool make_room) {
  std::vector<std::shared_ptr<Session>> ended;
  {
    const std::lock_guard lock(*mutex_);
    const auto now = Clock::now();
    next_sweep_ = now + kSweepEvery;
    auto oldest = sessions_.end();
    for (auto each = sessions_.begin(); each != sessions_.end();) {
      const Session& session = *each->second;
      if (session.users_ == 0 && now - session.last_use_ >= limits_.idle) {
        ended.push_back(std::move(each->second));
        each = sessions_.erase(each);
        continue;
      }
      if (session.users_ == 0 &&
          (oldest == sessions_.end() || session.last_use_ < oldest->second->last_use_)) {
        oldest = each;
      }
      ++each;
    }
    if (make_room && sessions_.size() >= limits_.most && oldest != sessions_.end()) {
      ended.push_back(std::move(oldest->second));
      sessions_.erase(oldest);
    }
  }
  for (const auto& session : ended) on_end_(*session);
}

}  // namespace mpnanny
