#include "monitor/core/live_place.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "base/os_file_system.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLockBytes = 8;
constexpr int kMostAtOnce = 64;  // processes of one machine with one path

// A name for a folder, made of the path: FNV-1a.
std::string NameOf(const std::string& path) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char text[20];
  snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// a/metrics.db, 3 -> a/metrics-3.db
std::string Numbered(const fs::path& path, int number) {
  if (number == 1) return path.string();
  const std::string name =
      path.stem().string() + "-" + std::to_string(number) + path.extension().string();
  return (path.parent_path() / name).string();
}

// The path that a link leads to, also where nothing is there yet.
fs::path Followed(fs::path path) {
  constexpr int kMostLinks = 40;
  std::error_code ec;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, ec); ++i) {
    path = path.parent_path() / fs::read_symlink(path, ec);
  }
  return path;
}

// No file, or one without a byte.
bool IsEmpty(const std::string& path) {
  std::error_code ec;
  const auto size = fs::file_size(path, ec);
  return ec || size == 0;
}

using Runs = std::set<std::pair<int64_t, double>>;

// The runs of a database that nobody writes at this moment. "unix-none": without locks, which may
// hang where the file is on another machine.
Result<Runs> RunsOf(const std::string& path, const char* vfs) {
  sqlite3* connection = nullptr;
  sqlite3_stmt* statement = nullptr;
  Runs runs;
  const int mode = vfs != nullptr ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  int code = sqlite3_open_v2(path.c_str(), &connection, mode, vfs);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(connection, 5000);
    code = sqlite3_prepare_v2(connection, "SELECT run_id, started_at FROM run", -1, &statement,
                              nullptr);
  }
  while (code == SQLITE_OK || code == SQLITE_ROW) {
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
      runs.emplace(sqlite3_column_int64(statement, 0), sqlite3_column_double(statement, 1));
    }
  }
  const std::string why = connection != nullptr ? sqlite3_errmsg(connection) : "out of memory";
  sqlite3_finalize(statement);
  sqlite3_close_v2(connection);
  if (code != SQLITE_DONE) {
    return DataCorrupt(path + ": cannot be read: " + why + ".",
                       "Choose another file with db=, or move this one away.");
  }
  return runs;
}

// Copies a database with what belongs to it.
Result<void> CopyFiles(const std::string& from, const std::string& to) {
  for (const std::string suffix : {"-wal", "-ring", ""}) {  // the database last: then all is there
    std::error_code ec;
    if (!fs::exists(from + suffix, ec)) continue;
    const std::string part = to + suffix + ".part";
    fs::remove(part, ec);
    if (auto made = CreatePrivateFile(part); !made) return made;
    fs::copy_file(from + suffix, part, fs::copy_options::overwrite_existing, ec);
    if (!ec) fs::rename(part, to + suffix, ec);
    if (ec) {
      const std::string why = ec.message();
      fs::remove(part, ec);
      return Unavailable(from + suffix + ": cannot be copied to " + to + suffix + ": " + why + ".");
    }
  }
  return {};
}

// Brings the published file, or what a killed run left, to the live place.
Result<void> Seed(LivePlace& place) {
  std::error_code ec;
  const bool has_live = !IsEmpty(place.live);
  place.fresh = !has_live;
  if (IsEmpty(place.published)) return {};
  if (has_live) {
    MPN_TRY(RunsOf(place.published, "unix-none"));
    if (MayReplace(place)) {
      place.note += " It goes on in the file that a killed run left there.";
      return {};
    }
    // Another machine has published since. Both are kept.
    const std::string aside = place.live + ".older";
    for (const std::string suffix : {"-wal", "-ring", ""}) {
      fs::remove(aside + suffix, ec);
      fs::rename(place.live + suffix, aside + suffix, ec);
    }
    fs::remove(place.live + "-shm", ec);
    place.note += " What a killed run had left there is now " + aside + ".";
  }
  place.fresh = true;
  return CopyFiles(place.published, place.live);
}

}  // namespace

Result<LivePlace> ChoosePlace(const std::string& path, std::optional<bool> network) {
  LivePlace place;
  std::error_code ec;
  if (path.empty()) return Unavailable("The path of the database is empty.");
  const fs::file_status status = fs::status(path, ec);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return Unavailable(
        path + (fs::is_directory(status) ? ": a folder, not a file." : ": not a regular file."),
        "Name a file with db=, such as nanny_logs/metrics.db.");
  }
  if (!network.value_or(network ? false : OnNetworkFileSystem(path))) {
    // Readers look for the ring and the WAL beside the file itself, not beside a link to it.
    place.live = Followed(path).string();
    return place;
  }
  MPN_TRY_ASSIGN(const std::string base, PrivateLocalFolder());
  const fs::path wanted = fs::weakly_canonical(Followed(path), ec);
  if (ec) return Unavailable(path + ": " + ec.message() + ".");
  for (int number = 1; number <= kMostAtOnce; ++number) {
    place.published = Numbered(wanted, number);
    const std::string folder = (fs::path(base) / NameOf(place.published)).string();
    MPN_TRY(MakePrivateFolder(folder));
    auto lock = MappedFile::OpenLocked((fs::path(folder) / "lock").string(), kLockBytes);
    if (!lock) continue;  // another process of this machine has it
    place.lock.emplace(*std::move(lock));
    place.live = (fs::path(folder) / wanted.filename()).string();
    place.note = "The path is on a network file system: the live file is " + place.live +
                 ", and a copy is published at " + place.published +
                 " every 30 s, at an ERROR and at the end.";
    // What cannot be written there should be told now and not after 30 s.
    MPN_TRY(CreatePrivateFile(place.published));
    MPN_TRY(Seed(place));
    return place;
  }
  return Unavailable(path + ": too many processes of this machine record there.");
}

bool MayReplace(const LivePlace& place) {
  if (IsEmpty(place.published)) return true;
  const Result<Runs> published = RunsOf(place.published, "unix-none");
  const Result<Runs> live = RunsOf(place.live, nullptr);
  return published && live &&
         std::includes(live->begin(), live->end(), published->begin(), published->end());
}

void RemoveLive(const LivePlace& place) {
  if (place.published.empty()) return;
  std::error_code ec;
  for (const std::string suffix : {"-wal", "-shm", "-ring", ""}) {
    fs::remove(place.live + suffix, ec);
  }
  const fs::path folder = fs::path(place.live).parent_path();
  fs::remove(folder / "lock", ec);
  fs::remove(folder, ec);  // only if nothing else is in it
}

}  // namespace mpnanny
