#include "base/data_files.h"

#include <filesystem>

#include "base/files.h"

namespace mpnanny {
namespace fs = std::filesystem;

Result<DataFiles> DataFiles::Create(const std::string& overlay) {
  DataFiles data;
  for (const EmbeddedFile& file : EmbeddedProductData()) data.files_.emplace(file.path, file.text);
  if (overlay.empty()) return data;

  std::error_code ec;
  if (!fs::is_directory(overlay, ec)) {
    return NotFound("--data-dir " + overlay + " is not a directory.");
  }
  for (const char* folder : {"knowledge/cases", "knowledge/search", "engines/check/rules",
                             "prompts", "monitor/alerts"}) {
    const fs::path root = fs::path(overlay) / folder;
    if (!fs::is_directory(root, ec)) continue;
    for (auto it = fs::directory_iterator(root, ec); !ec && it != fs::directory_iterator();
         it.increment(ec)) {
      if (!it->is_regular_file(ec)) continue;
      auto text = ReadFile(it->path().generic_string(), kMaxTextFileBytes);
      if (!text) return text.error();
      data.overlay_[std::string(folder) + "/" + it->path().filename().generic_string()] =
          *std::move(text);
    }
  }
  for (const auto& [path, text] : data.overlay_) data.files_[path] = text;
  return data;
}

std::optional<std::string_view> DataFiles::Read(std::string_view path) const {
  const auto it = files_.find(path);
  if (it == files_.end()) return std::nullopt;
  return it->second;
}

std::vector<std::string> DataFiles::List(std::string_view prefix, std::string_view suffix) const {
  std::vector<std::string> paths;
  for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix);
       ++it) {
    if (it->first.ends_with(suffix)) paths.push_back(it->first);
  }
  return paths;
}

uint64_t DataFiles::Fingerprint(std::string_view prefix) const {
  uint64_t fingerprint = 0;
  for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix);
       ++it) {
    for (const std::string_view part : {std::string_view(it->first), it->second}) {
      fingerprint = fingerprint * 1099511628211u ^ std::hash<std::string_view>{}(part);
    }
  }
  return fingerprint;
}

}  // namespace mpnanny
