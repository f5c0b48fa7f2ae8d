// Compiled kernels from one process to the next, as files of a folder that only this user may
// enter.
//
// What cannot be read or written, or is damaged, is as good as not there: it is compiled again.
// Files are written whole and renamed, so that processes may share a folder. Immutable; safe from
// any thread.
#ifndef MPNANNY_MONITOR_CORE_DEVICE_IMAGE_CACHE_H_
#define MPNANNY_MONITOR_CORE_DEVICE_IMAGE_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny::device {

// FNV-1a, going on from `hash`.
uint64_t HashOf(std::string_view text, uint64_t hash = 0xcbf29ce484222325);

class ImageCache {
 public:
  // `folder`: made if it is missing. One that is open to others, or empty, keeps nothing: code that
  // somebody else wrote must not run.
  explicit ImageCache(const std::string& folder);

  std::optional<std::string> Read(uint64_t key) const;
  void Write(uint64_t key, const std::string& image) const;

 private:
  std::string PathOf(uint64_t key) const;

  std::string folder_;  // empty: none
};

}  // namespace mpnanny::device

#endif  // MPNANNY_MONITOR_CORE_DEVICE_IMAGE_CACHE_H_
