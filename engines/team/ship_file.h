// One file that is shipped: its runs, each with its place on the server and how far it is.
//
// A FileShipper belongs to one thread at a time.
#ifndef MPNANNY_ENGINES_TEAM_SHIP_FILE_H_
#define MPNANNY_ENGINES_TEAM_SHIP_FILE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/team/connection.h"
#include "engines/team/part_writer.h"
#include "engines/team/run_reader.h"

namespace mpnanny::team {

class FileShipper {
 public:
  struct OneRun {
    runs::Run run;
    std::unique_ptr<RunReader> reader;
    std::optional<Part> part;  // absent: not opened on this connection's server yet
    bool swept = false;
    bool ring_told = false;
    bool whole = false;  // when last looked at, all was there
    int64_t rows = 0, bytes = 0;
  };

  FileShipper(std::string path, std::set<int64_t> wanted, double new_since)
      : path_(std::move(path)), wanted_(std::move(wanted)), new_since_(new_since) {}

  // What went wrong in the file is told apart from what went wrong on the server.
  struct Outcome {
    std::optional<Error> file, server;
  };
  // Ships what is new. Quick where nothing is.
  Outcome Ship(Connection& connection, const CancelToken& cancel);
  // The server may have lost what it had said was there: everything is asked again.
  void Forget();

  const std::string& path() const { return path_; }
  // How often one after the other the file could not be read: one that is just being made cannot.
  int failures() const { return failures_; }
  const std::map<int64_t, OneRun>& runs() const { return runs_; }
  // Every run of it has ended and is there.
  bool over() const;

 private:
  Outcome ShipFile(Connection& connection, const CancelToken& cancel);
  Outcome ShipRun(Connection& connection, OneRun& one, const runs::Ring& ring,
                  const CancelToken& cancel);
  std::string Stamp() const;

  const std::string path_;
  const std::set<int64_t> wanted_;  // none: all
  const double new_since_;
  std::map<int64_t, OneRun> runs_;
  int failures_ = 0;
  std::string stamp_;  // of the file when all of it was shipped
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_SHIP_FILE_H_
