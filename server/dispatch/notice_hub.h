// Tells clients that something changed: those that listen (modern), those that subscribed (legacy).
//
// What a client hears is only what it asked for. Shares ownership of the open listen calls; forgets
// connections that are gone. Thread-safe; sends outside its lock.
#ifndef MPNANNY_SERVER_DISPATCH_NOTICE_HUB_H_
#define MPNANNY_SERVER_DISPATCH_NOTICE_HUB_H_

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/dispatch/call.h"
#include "server/dispatch/connection.h"
#include "server/dispatch/listen_filter.h"

namespace mpnanny {

class NoticeHub {
 public:
  // --- for whoever knows that something changed ---
  void ToolsChanged();
  void PromptsChanged();
  void ResourcesChanged();
  void ResourceUpdated(const std::string& uri);
  // All resources that somebody watches.
  std::set<std::string> WatchedUris();
  // `watched` is called when a client begins to watch resources, in its call; nullptr: nobody wants
  // to know, and no call of it runs any more.
  void OnWatched(std::function<void()> watched);

  // --- for the core ---
  // Acknowledges the listen request and keeps it open. False if there are too many: nothing is
  // kept.
  bool Listen(const std::shared_ptr<Call>& call, const std::shared_ptr<Connection>& connection,
              ListenFilter filter);
  // The call was taken back: it hears no more.
  void Remove(const Call& call);
  // Gives every listen request its final result.
  void EndAll();

  // A legacy client hears list changes from now on, and updates of the resources it names.
  void AddLegacy(const std::shared_ptr<Connection>& connection);
  // False if the client watches too many already.
  bool Subscribe(const std::shared_ptr<Connection>& connection, const std::string& uri);
  void Unsubscribe(const std::shared_ptr<Connection>& connection, const std::string& uri);
  void Forget(const std::shared_ptr<Connection>& connection);

  static constexpr size_t kMaxListening = 1024;
  static constexpr size_t kMaxUrisEach = 256;  // resources that one client may watch

 private:
  struct Listener {
    std::shared_ptr<Call> call;
    std::weak_ptr<Connection> connection;
    ListenFilter filter;
  };
  struct Subscriber {
    std::weak_ptr<Connection> connection;
    std::set<std::string> uris;
  };

  void Tell(const std::string& method, const Json& params,
            const std::function<bool(const ListenFilter&)>& listener_wants,
            const std::function<bool(const Subscriber&)>& subscriber_wants);

  void TellWatched();

  std::mutex watched_mutex_;
  std::function<void()> watched_;  // guarded by watched_mutex_
  std::mutex mutex_;
  std::list<Listener> listeners_;                   // guarded by mutex_
  std::map<const Connection*, Subscriber> legacy_;  // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_NOTICE_HUB_H_
