#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/os_open.h"
#include "base/text.h"

namespace mpnanny {

Result<std::string> ReadWhole(int fd, const std::string& shown, uint64_t max_bytes) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
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
    const ssize_t n = read(fd, text.data() + filled, text.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return InvalidInput(shown + ": " + std::strerror(errno) + ".");
    if (n == 0) break;
    filled += static_cast<size_t>(n);
    if (filled > max_bytes) return too_large;
  }
  text.resize(filled);
  return text;
}

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  // O_NONBLOCK: opening a FIFO without a writer would wait for ever.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const std::string why = EscapeControl(path) + ": " + std::strerror(errno) + ".";
    return errno == ENOENT ? NotFound(why) : InvalidInput(why);
  }
  return ReadWhole(file.get(), EscapeControl(path), max_bytes);
}

}  // namespace mpnanny
