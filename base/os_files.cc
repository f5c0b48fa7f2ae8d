#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/text.h"

namespace mpnanny {
namespace fs = std::filesystem;
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// True if `path` is `root` or lies below it; both canonical.
bool Contains(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// Where `path` (absolute) leads, or would lead if what is missing were there: links are followed by
// hand, since fs::weakly_canonical takes a link to a missing file for a missing file and gives up
// at a loop or an unreadable folder. What cannot be looked at counts as a plain name; a loop ends
// where it is.
fs::path Destination(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // as many as Linux follows
  fs::path seen = path.root_path();
  std::deque<fs::path> rest(path.begin(), path.end());
  int links = 0;
  while (!rest.empty()) {
    const fs::path part = rest.front();
    rest.pop_front();
    if (part.empty() || part == "." || part == path.root_path()) continue;
    if (part == "..") {
      seen = seen.parent_path();
      continue;
    }
    std::error_code ec;
    const fs::path next = seen / part;
    const fs::path target = fs::read_symlink(next, ec);  // fails for what is no link
    if (ec) {
      seen = next;
    } else if (++links > kMaxLinks) {
      return next;
    } else {
      if (target.is_absolute()) seen = target.root_path();
      rest.insert(rest.begin(), target.begin(), target.end());
    }
  }
  return seen;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  const std::string shown = EscapeControl(path);
  // O_NONBLOCK: opening a FIFO without a writer would wait for ever.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const std::string why = std::strerror(errno);
    return errno == ENOENT ? NotFound(shown + ": " + why + ".")
                           : InvalidInput(shown + ": " + why + ".");
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidInput(shown + ": not a regular file.");
  }
  const Error too_large =
      InvalidInput(shown + ": larger than " + std::to_string(max_bytes) + " bytes.");
  if (static_cast<uint64_t>(info.st_size) > max_bytes) return too_large;

  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (true) {
    if (filled == text.size())
      text.resize(text.size() + 4096);  // the file may have grown, or st_size may be 0 (/proc)
    const ssize_t n = read(file.get(), text.data() + filled, text.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return InvalidInput(shown + ": " + std::strerror(errno) + ".");
    if (n == 0) break;
    filled += static_cast<size_t>(n);
    if (filled > max_bytes) return too_large;
  }
  text.resize(filled);
  return text;
}

AllowedRoots AllowedRoots::Unrestricted() {
  AllowedRoots roots;
  roots.unrestricted_ = true;
  std::error_code ec;
  roots.roots_.push_back(fs::current_path(ec).string());
  return roots;
}

Result<AllowedRoots> AllowedRoots::Create(const std::vector<std::string>& roots) {
  AllowedRoots allowed;
  std::error_code ec;
  for (const std::string& root : roots) {
    const fs::path canonical = fs::canonical(root, ec);
    if (ec || !fs::is_directory(canonical, ec)) {
      return NotFound("--root " + EscapeControl(root) + " is not a directory.");
    }
    allowed.roots_.push_back(canonical.string());
  }
  if (roots.empty()) {
    const fs::path here = fs::current_path(ec);
    if (!ec && here != here.root_path()) {
      const fs::path canonical = fs::canonical(here, ec);
      if (!ec) allowed.roots_.push_back(canonical.string());
    }
  }
  return allowed;
}

Result<std::string> AllowedRoots::Resolve(const std::string& path) const {
  const std::string shown = EscapeControl(path);
  if (path.empty()) return InvalidInput("The path is empty.");
  if (path.find('\0') != std::string::npos)
    return InvalidInput("The path " + shown + " holds a NUL byte.");
  if (roots_.empty()) {
    return Unavailable("No folder is open to this server.", "Start it with --root FOLDER.");
  }
  fs::path full(path);
  if (full.is_relative()) full = fs::path(roots_.front()) / full;
  std::error_code why;
  const fs::path canonical = fs::canonical(full, why);
  // What lies outside is answered alike whether it exists or not: the answer must not tell.
  const fs::path seen = why ? Destination(full) : canonical;
  if (!unrestricted_ && std::none_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
        return Contains(root, seen);
      })) {
    std::string list;
    for (const std::string& root : roots_) list += (list.empty() ? "" : ", ") + root;
    return InvalidInput(shown + " lies outside the folders that this server may read.",
                        "Allowed: " + list + ". Start the server with --root FOLDER to add one.");
  }
  if (why && why != std::errc::no_such_file_or_directory && why != std::errc::not_a_directory) {
    return InvalidInput(shown + ": " + why.message() + ".");
  }
  if (why) {
    return NotFound(
        shown + ": no such file or folder.",
        full.string() == path ? "" : "Looked for " + EscapeControl(full.string()) + ".");
  }
  return canonical.string();
}

}  // namespace mpnanny
