#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/os_windows_text.h"
#include "base/resolved_path.h"
#include "base/text.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

}  // namespace

Result<std::string> ReadResolvedFile(const std::string& path, uint64_t max_bytes) {
  return ReadFile(path, max_bytes);
}

struct ResolvedFile::Opened {
  std::ifstream file;
  uint64_t bytes = 0;
};

Result<ResolvedFile> ResolvedFile::Open(const std::string& path) {
  const std::string shown = EscapeControl(path);
  const fs::path wide(ToWide(path));
  std::error_code ec;
  if (!fs::is_regular_file(wide, ec)) {
    return fs::exists(wide, ec) ? InvalidInput(shown + ": not a regular file.")
                                : NotFound(shown + ": no such file.");
  }
  std::unique_ptr<Opened> opened(new Opened{std::ifstream(wide, std::ios::binary), 0});
  if (!opened->file.good()) return InvalidInput(shown + ": cannot be read by this user.");
  opened->bytes = fs::file_size(wide, ec);
  return ResolvedFile(std::move(opened));
}

size_t ResolvedFile::Read(char* to, size_t count) {
  opened_->file.read(to, static_cast<std::streamsize>(count));
  return static_cast<size_t>(std::max<std::streamsize>(opened_->file.gcount(), 0));
}

void ResolvedFile::Seek(uint64_t position) {
  opened_->file.clear();
  opened_->file.seekg(static_cast<std::streamoff>(position));
}

uint64_t ResolvedFile::bytes() const { return opened_->bytes; }

ResolvedFile::ResolvedFile(std::unique_ptr<Opened> opened) : opened_(std::move(opened)) {}
ResolvedFile::ResolvedFile(ResolvedFile&&) noexcept = default;
ResolvedFile& ResolvedFile::operator=(ResolvedFile&&) noexcept = default;
ResolvedFile::~ResolvedFile() = default;

Result<std::vector<FolderEntry>> ListResolvedFolder(const std::string& path, size_t most) {
  std::error_code ec;
  fs::directory_iterator it(fs::path(ToWide(path)), ec);
  if (ec) {
    const std::string why = EscapeControl(path) + ": " + ec.message() + ".";
    return ec == std::errc::no_such_file_or_directory ? NotFound(why) : InvalidInput(why);
  }
  std::vector<FolderEntry> entries;
  for (; !ec && it != fs::directory_iterator() && entries.size() < most; it.increment(ec)) {
    using Kind = FolderEntry::Kind;
    std::error_code ignored;
    const Kind kind = it->is_symlink(ignored)        ? Kind::kLink
                      : it->is_directory(ignored)    ? Kind::kFolder
                      : it->is_regular_file(ignored) ? Kind::kFile
                                                     : Kind::kOther;
    entries.push_back({it->path().filename().generic_string(), kind});
  }
  return entries;
}

Result<ResolvedFolder> ResolvedFolder::Open(const std::string& path) {
  return ResolvedFolder(-1, path.ends_with('/') ? path : path + "/");
}

ResolvedFolder::ResolvedFolder(ResolvedFolder&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), prefix_(std::move(other.prefix_)) {}

ResolvedFolder& ResolvedFolder::operator=(ResolvedFolder&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(prefix_, other.prefix_);
  return *this;
}

ResolvedFolder::~ResolvedFolder() = default;

std::string ResolvedFolder::PathOf(std::string_view entry) const {
  return prefix_ + std::string(entry);
}

}  // namespace mpnanny
