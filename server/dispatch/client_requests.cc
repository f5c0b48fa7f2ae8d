#include "server/dispatch/client_requests.h"

#include <utility>

namespace mpnanny {

std::string ClientRequests::Add(OnResponse on_response) {
  const std::lock_guard lock(mutex_);
  // Not a number: clients use those for their own requests, and some compare ids across directions.
  const std::string id = "mpnanny-" + std::to_string(++last_);
  open_.emplace(id, std::move(on_response));
  return id;
}

bool ClientRequests::Resolve(ResponseMessage response) {
  if (!response.id || !response.id->json().is_string()) return false;
  OnResponse on_response;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(response.id->json().get_ref<const std::string&>());
    if (found == open_.end()) return false;
    on_response = std::move(found->second);
    open_.erase(found);
  }
  on_response(std::move(response));
  return true;
}

bool ClientRequests::Remove(const std::string& id) {
  OnResponse removed;  // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return false;
  removed = std::move(found->second);
  open_.erase(found);
  return true;
}

}  // namespace mpnanny
