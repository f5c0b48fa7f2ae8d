#include "monitor/core/device/image_cache.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/os_file_system.h"
#include "base/process_info.h"

namespace mpnanny::device {

uint64_t HashOf(std::string_view text, uint64_t hash) {
  for (const char each : text) {
    hash ^= static_cast<unsigned char>(each);
    hash *= 0x100000001b3;
  }
  return hash;
}

ImageCache::ImageCache(const std::string& folder) {
  if (!folder.empty() && MakePrivateFolder(folder)) folder_ = folder;
}

std::string ImageCache::PathOf(uint64_t key) const {
  return folder_ + "/kernel-" + std::to_string(key);
}

// A file is the hash of the image, then the image.
std::optional<std::string> ImageCache::Read(uint64_t key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(PathOf(key), std::ios::binary);
  std::string image{std::istreambuf_iterator<char>(file), {}};
  uint64_t hash = 0;
  if (image.size() <= sizeof(hash)) return std::nullopt;
  std::memcpy(&hash, image.data(), sizeof(hash));
  image.erase(0, sizeof(hash));
  if (hash != HashOf(image)) return std::nullopt;
  return image;
}

void ImageCache::Write(uint64_t key, const std::string& image) const {
  if (folder_.empty()) return;
  const std::string path = PathOf(key), part = path + "." + std::to_string(CurrentProcess());
  const uint64_t hash = HashOf(image);
  std::error_code failed;
  {
    std::ofstream file(part, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&hash), sizeof(hash));
    file.write(image.data(), static_cast<std::streamsize>(image.size()));
    if (!file.flush()) failed = std::make_error_code(std::errc::io_error);
  }
  if (!failed) std::filesystem::rename(part, path, failed);
  if (failed) std::filesystem::remove(part, failed);
}

}  // namespace mpnanny::device
