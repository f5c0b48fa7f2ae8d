#include "engines/team/ship.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/text.h"
#include "engines/team/failure.h"
#include "engines/team/found_files.h"
#include "engines/team/layout.h"
#include "engines/team/merge_steps.h"
#include "engines/team/ship_file.h"

namespace mpnanny::team {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFindAgain{5};  // files that came since
constexpr double kMergeSeconds = 10;
constexpr std::chrono::seconds kFirstRetry{1}, kLastRetry{30};
constexpr size_t kMostNotes = 20;
constexpr int kFailuresToTell = 3;

class Shipper {
 public:
  Shipper(const ShipOptions& options, const StopEvent& stop, const CancelToken& cancel)
      : options_(options), stop_(stop), cancel_(cancel) {}

  Result<ShipReport> Run() {
    while (true) {
      // Asked before a round: what was written until then is in it.
      const bool last = !options_.follow || stop_.requested();
      auto done = Round(last);
      if (!done) {
        if (!Passing(done.error())) return done.error();
        if (last) return Report(Told(done.error()));
        Retry(done.error());
        continue;
      }
      if (trouble_) Tell("The server takes rows again.");
      trouble_.reset();
      retry_ = kFirstRetry;
      worked_ = true;
      if (last || (options_.new_since == 0 && Over())) break;
      stop_.WaitFor(std::chrono::milliseconds(static_cast<int64_t>(options_.interval * 1000)));
    }
    return Report(std::nullopt);
  }

 private:
  void Tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  // Whether a follower goes on in spite of it. What is wrong before anything went right is most
  // likely wrong in the words of whoever typed them.
  bool Passing(const Error& error) const {
    return options_.follow && (MayPass(error) || worked_ || stop_.requested());
  }

  void Retry(const Error& error) {
    if (!trouble_ || *trouble_ != error.message) {
      Tell(error.Text() + " It is tried again until it works; nothing is lost meanwhile.");
    }
    trouble_ = error.message;
    stop_.WaitFor(retry_);
    retry_ = std::min(retry_ * 2, std::chrono::milliseconds(kLastRetry));
  }

  Result<void> FindFiles() {
    if (found_ != Clock::time_point() && Clock::now() - found_ < kFindAgain) return {};
    found_ = Clock::now();
    MPN_TRY_ASSIGN(auto wanted, FindWanted(options_.what, cancel_));
    for (auto& [path, runs] : wanted.files) {
      if (files_.contains(path)) continue;
      files_[path] = std::make_unique<FileShipper>(path, std::move(runs), options_.new_since);
    }
    if (options_.follow) return {};
    for (const std::string& word : wanted.missing) {
      return NotFound(EscapeControl(word) + " names no database of a run.",
                      "A run is named by its file, file#id, or a folder above it; --follow waits "
                      "for one that is to come.");
    }
    return {};
  }

  // All files once, each by the next lane that is free.
  Result<void> Round(bool last) {
    MPN_TRY(FindFiles());
    std::vector<FileShipper*> files;
    for (const auto& [path, file] : files_) files.push_back(file.get());
    const size_t lanes =
        std::min<size_t>(std::max(1, options_.lanes), std::max<size_t>(1, files.size()));
    connections_.resize(std::max(connections_.size(), lanes));
    std::atomic<size_t> next = 0;
    std::vector<std::optional<Error>> failures(lanes);
    const auto work = [&](size_t lane) { failures[lane] = WorkOn(files, next, lane); };
    std::vector<std::thread> threads;
    for (size_t lane = 1; lane < lanes; ++lane) threads.emplace_back(work, lane);
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (std::optional<Error>& failure : failures) {
      if (!failure) continue;
      // What the server said it had may be gone with it.
      connections_.clear();
      for (auto& [path, file] : files_) file->Forget();
      return *std::move(failure);
    }
    return Merge(last);
  }

  std::optional<Error> WorkOn(const std::vector<FileShipper*>& files, std::atomic<size_t>& next,
                              size_t lane) {
    std::unique_ptr<Connection>& connection = connections_[lane];
    if (auto ready = Connect(connection); !ready) {
      next = files.size();
      return ready.error();
    }
    for (size_t i = next++; i < files.size(); i = next++) {
      FileShipper::Outcome outcome = files[i]->Ship(*connection, cancel_);
      if (outcome.file) Note(*outcome.file, files[i]->failures());
      if (outcome.server) {
        next = files.size();  // the other lanes stop soon as well
        return outcome.server;
      }
    }
    return std::nullopt;
  }

  Result<void> Connect(std::unique_ptr<Connection>& connection) const {
    if (connection && connection->alive()) return {};
    Connection::Options options;
    options.application = "mpnanny ship";
    MPN_TRY_ASSIGN(connection, Connection::Open(options_.to, cancel_, options));
    return CheckLayout(*connection);
  }

  // A follower looks again before it says something: a file may just be made.
  void Note(const Error& error, int failures) {
    if (options_.follow && failures < kFailuresToTell) return;
    const std::lock_guard lock(mutex_);
    if (noted_.size() < kMostNotes && noted_.insert(error.Text()).second && options_.follow) {
      Tell(error.Text());
    }
  }

  Result<void> Merge(bool last) {
    std::set<int64_t> trainings;
    for (const auto& [path, file] : files_) {
      for (const auto& [id, one] : file->runs()) {
        if (!one.part) continue;
        trainings.insert(one.part->training);
        if (told_.insert(one.part->training).second && options_.follow) {
          Tell(EscapeControl(one.run.name, 200) + " is " +
               HandleOf(options_.to, one.part->training) + ".");
        }
      }
    }
    for (const int64_t training : trainings) {
      MPN_TRY(MergeSteps(*connections_[0], training, last || Over() ? 0 : kMergeSeconds));
    }
    return {};
  }

  bool Over() const {
    bool any = false;
    for (const auto& [path, file] : files_) {
      any = any || !file->runs().empty();
      if (!file->over()) return false;
    }
    return any;
  }

  // A limit that the end set is no limit that somebody asked for.
  static Error Told(const Error& error) {
    if (error.kind != ErrorKind::kDeadlineExceeded && error.kind != ErrorKind::kCancelled) {
      return error;
    }
    return Unavailable("The server did not take the last rows in time.", "");
  }

  ShipReport Report(const std::optional<Error>& failure) const {
    ShipReport report;
    std::map<int64_t, ShippedTraining> trainings;
    for (const auto& [path, file] : files_) {
      report.whole = report.whole && file->failures() == 0;
      for (const auto& [id, one] : file->runs()) {
        report.rows += one.rows;
        report.bytes += one.bytes;
        report.whole = report.whole && one.whole;
        if (!one.part) continue;
        ShippedTraining& training = trainings[one.part->training];
        training.training = one.part->training;
        training.name = one.run.name;
        training.world_size = one.run.world_size;
        ++training.ranks;
        training.rows += one.rows;
        training.whole = training.whole && one.whole;
        training.running = training.running || one.run.status == runs::Status::kRunning;
      }
    }
    for (auto& [id, training] : trainings) report.trainings.push_back(std::move(training));
    report.notes.assign(noted_.begin(), noted_.end());
    report.whole = report.whole && !failure;
    if (failure) report.notes.push_back(failure->Text());
    return report;
  }

  const ShipOptions& options_;
  const StopEvent& stop_;
  const CancelToken cancel_;
  std::map<std::string, std::unique_ptr<FileShipper>> files_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Clock::time_point found_;
  std::set<int64_t> told_;
  std::optional<std::string> trouble_;
  std::chrono::milliseconds retry_ = kFirstRetry;
  bool worked_ = false;
  std::mutex mutex_;  // of what follows
  std::set<std::string> noted_;
};

}  // namespace

Result<ShipReport> Ship(const ShipOptions& options, const StopEvent& stop,
                        const CancelToken& cancel) {
  return Shipper(options, stop, cancel).Run();
}

}  // namespace mpnanny::team
