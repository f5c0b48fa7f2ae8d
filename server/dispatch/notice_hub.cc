#include "server/dispatch/notice_hub.h"

#include <algorithm>
#include <utility>

namespace mpnanny {
namespace {

// A notice for a listen request carries its id, in its own type.
Json Tagged(Json params, const Call& call) {
  params["_meta"]["io.modelcontextprotocol/subscriptionId"] = call.id().json();
  return params;
}

Json FilterJson(const ListenFilter& filter) {
  Json json = Json::object();
  if (filter.tools_changed) json["toolsListChanged"] = true;
  if (filter.prompts_changed) json["promptsListChanged"] = true;
  if (filter.resources_changed) json["resourcesListChanged"] = true;
  if (!filter.resource_uris.empty()) json["resourceSubscriptions"] = filter.resource_uris;
  return json;
}

}  // namespace

void NoticeHub::ToolsChanged() {
  Tell(
      "notifications/tools/list_changed", Json::object(),
      [](const ListenFilter& filter) { return filter.tools_changed; },
      [](const Subscriber&) { return true; });
}

void NoticeHub::PromptsChanged() {
  Tell(
      "notifications/prompts/list_changed", Json::object(),
      [](const ListenFilter& filter) { return filter.prompts_changed; },
      [](const Subscriber&) { return true; });
}

void NoticeHub::ResourcesChanged() {
  Tell(
      "notifications/resources/list_changed", Json::object(),
      [](const ListenFilter& filter) { return filter.resources_changed; },
      [](const Subscriber&) { return true; });
}

void NoticeHub::ResourceUpdated(const std::string& uri) {
  Tell(
      "notifications/resources/updated", {{"uri", uri}},
      [&](const ListenFilter& filter) { return filter.resource_uris.contains(uri); },
      [&](const Subscriber& subscriber) { return subscriber.uris.contains(uri); });
}

std::set<std::string> NoticeHub::WatchedUris() {
  std::set<std::string> uris;
  const std::lock_guard lock(mutex_);
  for (const Listener& listener : listeners_) {
    uris.insert(listener.filter.resource_uris.begin(), listener.filter.resource_uris.end());
  }
  for (const auto& [client, subscriber] : legacy_) {
    if (!subscriber.connection.expired()) {
      uris.insert(subscriber.uris.begin(), subscriber.uris.end());
    }
  }
  return uris;
}

void NoticeHub::OnWatched(std::function<void()> watched) {
  const std::lock_guard lock(watched_mutex_);
  watched_ = std::move(watched);
}

void NoticeHub::TellWatched() {
  const std::lock_guard lock(watched_mutex_);
  if (watched_) watched_();
}

void NoticeHub::Tell(const std::string& method, const Json& params,
                     const std::function<bool(const ListenFilter&)>& listener_wants,
                     const std::function<bool(const Subscriber&)>& subscriber_wants) {
  std::vector<std::shared_ptr<Call>> calls;
  std::vector<std::shared_ptr<Connection>> connections;
  {
    const std::lock_guard lock(mutex_);
    for (const Listener& listener : listeners_) {
      if (listener_wants(listener.filter)) calls.push_back(listener.call);
    }
    for (auto it = legacy_.begin(); it != legacy_.end();) {
      const auto connection = it->second.connection.lock();
      if (connection && subscriber_wants(it->second)) connections.push_back(connection);
      it = connection ? std::next(it) : legacy_.erase(it);
    }
  }
  for (const auto& call : calls) call->Send(Notification(method, Tagged(params, *call)));
  for (const auto& connection : connections)
    connection->notices->Send(Notification(method, params));
}

bool NoticeHub::Listen(const std::shared_ptr<Call>& call,
                       const std::shared_ptr<Connection>& connection, ListenFilter filter) {
  const bool watches = !filter.resource_uris.empty();
  {
    // The acknowledgement is sent under the lock: it is the first message of the subscription, and
    // nothing that happens after it may be missed.
    const std::lock_guard lock(mutex_);
    if (listeners_.size() >= kMaxListening) return false;
    const Json acknowledged = {{"notifications", FilterJson(filter)}};
    if (!call->Send(Notification("notifications/subscriptions/acknowledged",
                                 Tagged(acknowledged, *call)))) {
      return true;  // taken back already
    }
    listeners_.push_back({call, connection, std::move(filter)});
  }
  if (watches) TellWatched();
  return true;
}

void NoticeHub::Remove(const Call& call) {
  std::list<Listener> removed;  // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(listeners_.begin(), listeners_.end(),
                                  [&](const Listener& each) { return each.call.get() == &call; });
  if (found != listeners_.end()) removed.splice(removed.begin(), listeners_, found);
}

void NoticeHub::EndAll() {
  std::list<Listener> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(listeners_);
  }
  for (const Listener& listener : ending) {
    if (const auto connection = listener.connection.lock()) {
      connection->calls.Remove(*listener.call);
      // Where requests share one stream, its end does not tell that this one ends.
      if (connection->notices) {
        listener.call->Send(
            Notification("notifications/cancelled", {{"requestId", listener.call->id().json()}}));
      }
    }
    listener.call->Answer(MethodResult{Tagged(Json::object(), *listener.call)});
  }
}

void NoticeHub::AddLegacy(const std::shared_ptr<Connection>& connection) {
  if (!connection->notices) return;
  const std::lock_guard lock(mutex_);
  // A second initialize starts over.
  legacy_[connection.get()] = Subscriber{connection, {}};
}

bool NoticeHub::Subscribe(const std::shared_ptr<Connection>& connection, const std::string& uri) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = legacy_.find(connection.get());
    if (found == legacy_.end()) return false;
    std::set<std::string>& uris = found->second.uris;
    if (uris.size() >= kMaxUrisEach && !uris.contains(uri)) return false;
    uris.insert(uri);
  }
  TellWatched();
  return true;
}

void NoticeHub::Unsubscribe(const std::shared_ptr<Connection>& connection, const std::string& uri) {
  const std::lock_guard lock(mutex_);
  const auto found = legacy_.find(connection.get());
  if (found != legacy_.end()) found->second.uris.erase(uri);
}

void NoticeHub::Forget(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  legacy_.erase(connection.get());
}

}  // namespace mpnanny
