// Tells clients that a resource they subscribed to has changed: asks the resource's family for its
// version once a second, and only while somebody watches.
//
// Owns a thread, begun with the first subscription, so that a server nobody subscribes to has none.
// Borrows the registry and the hub. Thread-safe.
#ifndef MPNANNY_SERVER_RESOURCE_WATCH_H_
#define MPNANNY_SERVER_RESOURCE_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/cancel.h"
#include "server/dispatch/notice_hub.h"
#include "server/registry.h"

namespace mpnanny {

class ResourceWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{1000};
  // Looking may take a tenth of the time: with many or slow resources it is done less often.
  static constexpr int kRest = 10;

  ResourceWatch(const Registry& registry, NoticeHub& hub);
  ~ResourceWatch();  // joins the thread
  ResourceWatch(const ResourceWatch&) = delete;
  ResourceWatch& operator=(const ResourceWatch&) = delete;

 private:
  void Wake();
  void Run();
  void Look();
  std::optional<std::string> VersionOf(const std::string& uri);

  const Registry& registry_;
  NoticeHub& hub_;
  CancelSource stopping_;
  std::map<std::string, std::string> versions_;  // by URI; the thread's
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false, stop_ = false;  // guarded by mutex_
  std::thread thread_;                 // begun under mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_RESOURCE_WATCH_H_
