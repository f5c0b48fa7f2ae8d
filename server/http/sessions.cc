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

Session::Session(const SessionLimits& limits, std::shared_ptr<KeptBytes> kept_by_all)
    : id_(RandomId()),
      limits_(limits),
      kept_by_all_(std::move(kept_by_all)),
      kept_(std::make_shared<KeptBytes>(kept_by_all_)),
      own_stream_(OwnStream()),
      connection_(std::make_shared<Connection>(std::make_shared<StreamSink>(own_stream_))) {}

std::optional<uint64_t> Session::Keep(std::shared_ptr<EventStream> stream,
                                      const StreamMessage* taken) {
  const auto full = [this] { return streams_.size() >= limits_.kept_streams || OverBudget(); };
  const std::lock_guard lock(mutex_);
  ForgetWhileLocked(full);
  if (full()) return std::nullopt;
  stream->Keep(taken, kept_);
  streams_.emplace_back(++last_number_, std::move(stream));
  return last_number_;
}

bool Session::OverBudget() const {
  return kept_->bytes() > limits_.kept_bytes || kept_by_all_->bytes() > limits_.kept_bytes_of_all;
}

void Session::MeetBudget() {
  const std::lock_guard lock(mutex_);
  ForgetWhileLocked([this] { return kept_->bytes() > limits_.kept_bytes; });
}

void Session::ForgetWhileLocked(const std::function<bool()>& over) {
  while (over() && (ForgetLocked(Spare::kUnread) || ForgetLocked(Spare::kNothing))) {
  }
}

bool Session::Forget(Spare spare) {
  const std::lock_guard lock(mutex_);
  return ForgetLocked(spare);
}

bool Session::ForgetLocked(Spare spare) {
  const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& each) {
    return spare == Spare::kUnread ? each.second->finished() : each.second->ended();
  });
  if (found == streams_.end()) return false;
  found->second->Uncount();
  streams_.erase(found);
  return true;
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
  const auto session = std::make_shared<Session>(limits_, kept_);
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
  // What calls have sent since their clients left is counted when the next request comes.
  MeetBudget();
  const std::lock_guard lock(*mutex_);
  const auto found = sessions_.find(std::string(id));
  if (found == sessions_.end()) return nullptr;
  found->second->MeetBudget();
  return Hold(found->second);
}

void Sessions::MeetBudget() {
  const auto over = [this] { return kept_->bytes() > limits_.kept_bytes_of_all; };
  if (!over()) return;
  std::vector<Session*> idle_longest;
  const std::lock_guard lock(*mutex_);
  for (const auto& [id, session] : sessions_) idle_longest.push_back(session.get());
  std::sort(idle_longest.begin(), idle_longest.end(),
            [](const Session* a, const Session* b) { return a->last_use_ < b->last_use_; });
  for (const auto spare : {Session::Spare::kUnread, Session::Spare::kNothing}) {
    for (Session* session : idle_longest) {
      while (over() && session->Forget(spare)) {
      }
    }
  }
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
      const bool idle = session.users_ == 0 && session.connection_->calls.empty();
      if (idle && now - session.last_use_ >= limits_.idle) {
        ended.push_back(std::move(each->second));
        each = sessions_.erase(each);
        continue;
      }
      if (idle && (oldest == sessions_.end() || session.last_use_ < oldest->second->last_use_)) {
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
