// A team's database as it stands at one moment, and one training of it asked in the monitor's SQL.
//
// The readers of runs (engines/runs) speak one SQL, that of a monitor's file; here each table's
// name means the rows of one training, with the rank in the place of `run_id` (a training has one
// run a rank), so that their statements are the server's own work and nothing is copied first. What
// comes from the server is as little trusted as a file from elsewhere: the session may only read,
// views are not looked at, no function outside of pg_catalog is found, and no value is longer than
// a reader would take. (A text is cut, and so no index finds it: "raw_name" is the name as it
// stands, to compare with and never to read.) A Snapshot belongs to one call on one thread and
// outlives its Selects.
#ifndef MPNANNY_ENGINES_TEAM_SNAPSHOT_H_
#define MPNANNY_ENGINES_TEAM_SNAPSHOT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/team/address.h"
#include "engines/team/connection.h"
#include "engines/team/select.h"

namespace mpnanny::team {

class Snapshot {
 public:
  // Connects, and fails with what is wrong and what to try: no server, no answer in time, no right
  // to read, no tables of ours, another layout.
  static Result<std::unique_ptr<Snapshot>> Open(const Address& address, const CancelToken& cancel);

  // From now on tables mean this training's rows; `meaning`, which all ranks have alike, the lowest
  // rank's. `merged_to`: up to where step_all is whole; `all_merged`: nothing comes after that.
  void Show(int64_t training, std::optional<int64_t> merged_to, bool all_merged);
  int64_t training() const { return training_; }

  // One SELECT of the monitor's SQL (?1, ?2 …; `run_id` is the rank), or with `of_all` one of the
  // server's own ($1 …; tables are mpnanny.step).
  Result<std::unique_ptr<Select>> Prepare(std::string_view sql);
  Result<std::unique_ptr<Select>> PrepareOfAll(std::string sql);

  bool HasColumn(std::string_view table, std::string_view column) const;
  // Statements that take longer are ended by the server.
  void LimitTime(std::chrono::milliseconds limit);

  const Address& address() const { return connection_->address(); }

 private:
  friend class Select;
  explicit Snapshot(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
  Result<void> Begin();
  Result<void> ReadColumns();
  // The name under which the server knows the statement: many questions of a call are alike.
  Result<std::string> PreparedAs(const std::string& sql);
  std::string RowsOf(std::string_view table) const;  // of the training, as a SELECT
  // After a failed statement nothing else of the same moment can be asked: begins a new one, in
  // which what was prepared is still good and what was being read is not.
  void BeginAgain();

  std::unique_ptr<Connection> connection_;
  // Tables and their columns with the server's type.
  std::map<std::string, std::map<std::string, std::string>, std::less<>> columns_;
  int64_t training_ = 0;
  std::optional<int64_t> merged_to_;
  bool all_merged_ = false;
  std::map<std::string, std::string> prepared_;  // names by statement
  int selects_ = 0;                              // names of their cursors
  int moment_ = 0;                               // counts the moments
  std::chrono::milliseconds limit_{0};           // of a statement; zero: none
};

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_SNAPSHOT_H_
