#include "monitor/core/publisher.h"

#include <sqlite3.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "base/process_info.h"
#include "monitor/core/json_text.h"
#include "monitor/core/rows.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

struct CloseConnection {
  void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
};
using Connection = std::unique_ptr<sqlite3, CloseConnection>;

Result<Connection> OpenConnection(const std::string& path, int flags, const char* vfs) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, vfs);
  Connection connection(raw);
  if (code != SQLITE_OK) return Unavailable(path + ": cannot be opened: " + sqlite3_errstr(code));
  sqlite3_busy_timeout(raw, 5000);
  return connection;
}

// The copy is complete without a WAL; its header, copied from a live file, must not ask for one.
bool MakePlain(const std::string& path) {
  constexpr std::streamoff kVersions = 18;  // of the file format, for writing and for reading
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kVersions);
  file.write("\1\1", 2);
  file.flush();
  return file.good();
}

}  // namespace

Publisher::Publisher(LivePlace place, std::function<void()> flush,
                     std::function<void(std::string, std::string)> tell)
    : place_(std::move(place)), flush_(std::move(flush)), tell_(std::move(tell)) {}

Publisher::~Publisher() { Stop(); }

Result<void> Publisher::Start() {
  try {
    thread_ = std::thread([this] {
      try {
        Run();
      } catch (const std::exception&) {  // out of memory: the live file goes on
      }
    });
  } catch (const std::exception& error) {
    return Unavailable(std::string("No thread for publishing: ") + error.what() + ".");
  }
  return {};
}

void Publisher::PublishSoon() {
  {
    const std::lock_guard lock(mutex_);
    soon_ = true;
  }
  wake_.notify_all();
}

void Publisher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string Publisher::published() const {
  const std::lock_guard lock(mutex_);
  return place_.published;
}

void Publisher::Run() {
  double next = 0, next_soon = 0;  // of SteadySeconds()
  bool failed = false;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const double now = SteadySeconds();
    const double due = soon_ ? next_soon : next;
    if (now < due) {
      wake_.wait_for(lock, std::chrono::duration<double>(due - now));
      continue;
    }
    soon_ = false;
    lock.unlock();
    flush_();
    const double began = SteadySeconds();
    const Result<void> copied = stop_ ? Result<void>() : Copy();
    const double ended = SteadySeconds();
    if (!copied && !failed && !stop_) {
      tell_("publish_failed", "{\"error\":" + JsonText(copied.error().Text()) + "}");
    }
    failed = !copied;
    next = began + std::max(kSeconds, kRest * (ended - began));
    next_soon = began + std::max(kSoonSeconds, kSoonRest * (ended - began));
    lock.lock();
  }
}

Result<void> Publisher::MakePart(const std::string& part) {
  constexpr int kPages = 256;  // a MB at a time: the end of the run need not wait for the rest
  MPN_TRY_ASSIGN(auto live, OpenConnection(place_.live, SQLITE_OPEN_READONLY, nullptr));
  // One snapshot for the whole copy, whatever is written meanwhile.
  if (sqlite3_exec(live.get(), "BEGIN; SELECT count(*) FROM run", nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    return Unavailable(place_.live + ": cannot be read: " + sqlite3_errmsg(live.get()) + ".");
  }
  // "unix-none": nobody else knows the file yet, and locks may hang over the network.
  MPN_TRY_ASSIGN(auto copy, OpenConnection(part, SQLITE_OPEN_READWRITE, "unix-none"));
  sqlite3_exec(copy.get(), "PRAGMA journal_mode = OFF", nullptr, nullptr, nullptr);
  sqlite3_backup* backup = sqlite3_backup_init(copy.get(), "main", live.get(), "main");
  int code = backup != nullptr ? SQLITE_OK : SQLITE_ERROR;
  while (code == SQLITE_OK && !stop_) code = sqlite3_backup_step(backup, kPages);
  const int finished = sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE || finished != SQLITE_OK) {
    return Unavailable(part + ": cannot be written: " + sqlite3_errmsg(copy.get()) + ".");
  }
  return {};
}

Result<void> Publisher::Copy() {
  std::string published = place_.published;  // changed by this function alone
  if (!MayReplace(place_)) {
    // Another machine records with the same path.
    const fs::path path(published);
    const std::string name = path.stem().string() + "-" + HostName() + "-" +
                             std::to_string(CurrentProcess()) + path.extension().string();
    published = (path.parent_path() / name).string();
    {
      const std::lock_guard lock(mutex_);
      place_.published = published;
    }
    if (!MayReplace(place_)) return Unavailable(published + ": somebody else's file.");
    tell_("published_elsewhere", "{\"path\":" + JsonText(published) + "}");
  }
  const std::string part = published + ".part";
  std::error_code ec;
  fs::remove(part, ec);
  Result<void> done = CreatePrivateFile(part);
  if (done) done = MakePart(part);
  if (done && !MakePlain(part)) done = Unavailable(part + ": cannot be written.");
  if (done) {
    // What a run once wrote here directly does not belong to the copy.
    for (const char* suffix : {"-wal", "-shm", "-ring"}) fs::remove(published + suffix, ec);
    fs::rename(part, published, ec);
    if (ec) done = Unavailable(published + ": cannot be replaced: " + ec.message() + ".");
  }
  if (!done) fs::remove(part, ec);
  return done;
}

Result<void> Publisher::Finish() {
  stop_ = false;
  tell_ = [](const std::string&, const std::string&) {};  // the run is closed
  if (auto copied = Copy(); !copied) {
    return Unavailable(copied.error().Text() + " The whole run is in " + place_.live + ".");
  }
  RemoveLive(place_);
  return {};
}

}  // namespace mpnanny
