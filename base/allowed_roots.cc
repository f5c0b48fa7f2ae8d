#include <algorithm>
#include <deque>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/text.h"

namespace mpnanny {
namespace fs = std::filesystem;
namespace {

// True if `path` is `root` or lies below it; both canonical.
bool Contains(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// False where even to look at `path` would tell others something: in Windows a path of another
// machine (two backslashes, HOST, share) makes this one connect to it and log in. Other systems
// have no names of roots.
bool HasRootNameOf(const std::vector<std::string>& roots, const fs::path& path) {
  const std::string name = path.root_name().generic_string();
  return name.empty() || std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
           return LowerCase(fs::path(root).root_name().generic_string()) == LowerCase(name);
         });
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

// Where a password can stand in a URL: before the '@', or as an option. It would be seen in a
// client's configuration and in the list of processes.
bool HoldsPassword(std::string_view url) {
  const std::string_view rest = url.substr(url.find("//") + 2);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const size_t at = authority.rfind('@');
  return (at != std::string_view::npos &&
          authority.substr(0, at).find(':') != std::string_view::npos) ||
         LowerCase(url).find("password=") != std::string::npos;
}

}  // namespace

bool IsDatabaseUrl(std::string_view text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

AllowedRoots AllowedRoots::Unrestricted() {
  AllowedRoots roots;
  roots.unrestricted_ = true;
  std::error_code ec;
  roots.roots_.push_back(fs::current_path(ec).generic_string());
  return roots;
}

Result<AllowedRoots> AllowedRoots::Create(const std::vector<std::string>& roots) {
  AllowedRoots allowed;
  std::error_code ec;
  for (const std::string& root : roots) {
    if (IsDatabaseUrl(root)) {
      if (HoldsPassword(root)) {
        return InvalidInput("--root: a database's URL must not hold a password.",
                            "libpq takes it from PGPASSWORD, ~/.pgpass or PGSERVICE.");
      }
      allowed.databases_.push_back(root);
      continue;
    }
    const fs::path canonical = fs::canonical(root, ec);
    if (ec || !fs::is_directory(canonical, ec)) {
      return NotFound("--root " + EscapeControl(root) + " is not a directory.");
    }
    allowed.roots_.push_back(canonical.generic_string());
  }
  if (roots.empty()) {
    const fs::path here = fs::current_path(ec);
    if (!ec && here != here.root_path()) {
      const fs::path canonical = fs::canonical(here, ec);
      if (!ec) allowed.roots_.push_back(canonical.generic_string());
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
  std::error_code why = std::make_error_code(std::errc::no_such_file_or_directory);
  const bool known_place = unrestricted_ || HasRootNameOf(roots_, full);
  const fs::path canonical = known_place ? fs::canonical(full, why) : fs::path();
  // What lies outside is answered alike whether it exists or not: the answer must not tell.
  const fs::path seen = !known_place ? full : why ? Destination(full) : canonical;
  if (!unrestricted_ && std::none_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
        return known_place && Contains(root, seen);
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
    return NotFound(shown + ": no such file or folder.",
                    full.generic_string() == path
                        ? ""
                        : "Looked for " + EscapeControl(full.generic_string()) + ".");
  }
  return canonical.generic_string();
}

}  // namespace mpnanny
