#include "server/resource_watch.h"

#include <algorithm>
#include <exception>
#include <set>

#include "base/log.h"
#include "server/methods/resource_uri.h"

namespace mpnanny {

ResourceWatch::ResourceWatch(const Registry& registry, NoticeHub& hub)
    : registry_(registry), hub_(hub) {
  if (registry_.features.subscriptions && registry_.watch_context) {
    hub_.OnWatched([this] { Wake(); });
  }
}

ResourceWatch::~ResourceWatch() {
  hub_.OnWatched(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.Cancel();
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ResourceWatch::Wake() {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  woken_ = true;
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::exception& error) {
      LogError(std::string("Subscriptions are not told: ") + error.what());
    }
  }
  wake_.notify_all();
}

void ResourceWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    woken_ = false;
    lock.unlock();
    const auto began = std::chrono::steady_clock::now();
    try {
      Look();
    } catch (const std::exception& error) {
      LogError(std::string("Watching resources: ") + error.what());
    }
    const auto took = std::chrono::steady_clock::now() - began;
    const bool idle = versions_.empty();
    lock.lock();
    const auto due = [&] { return stop_ || woken_; };
    if (idle) {
      wake_.wait(lock, due);
    } else {
      wake_.wait_for(lock, std::max<std::chrono::steady_clock::duration>(kInterval, took * kRest),
                     due);
    }
  }
}

void ResourceWatch::Look() {
  const std::set<std::string> watched = hub_.WatchedUris();
  std::erase_if(versions_, [&](const auto& known) { return !watched.contains(known.first); });
  for (const std::string& uri : watched) {
    if (stopping_.token().stop_requested()) return;
    auto version = VersionOf(uri);
    if (!version) continue;  // nothing of it changes
    const auto [known, fresh] = versions_.try_emplace(uri, *version);
    if (fresh || known->second == *version) continue;
    known->second = *std::move(version);
    hub_.ResourceUpdated(uri);
  }
}

std::optional<std::string> ResourceWatch::VersionOf(const std::string& uri) {
  for (const ResourceTemplate& family : registry_.resources) {
    const auto value = MatchResourceUri(family, uri);
    if (!value || !family.version) continue;
    return family.version(*value, registry_.watch_context(stopping_.token()));
  }
  return std::nullopt;
}

}  // namespace mpnanny
