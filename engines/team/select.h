// A prepared SELECT of a Snapshot, whose rows come in pieces: a short answer in one, a long one by
// a cursor, so that several can be read in turns and none is held whole.
//
// Owned by its reader, borrows the Snapshot.
#ifndef MPNANNY_ENGINES_TEAM_SELECT_H_
#define MPNANNY_ENGINES_TEAM_SELECT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engines/team/connection.h"

namespace mpnanny::team {

class Snapshot;

class Select {
 public:
  void Bind(int index, Value value);  // from 1
  Result<bool> Next();                // to the next row; false at the end
  void Reset();                       // ready to be run again; bindings stay

  // Of the row; a value of another type reads as absent, as of runs::Statement.
  std::optional<int64_t> Int(int column) const;
  std::optional<double> Real(int column) const;  // of an integer as well
  std::optional<std::string> Text(int column) const;
  std::optional<std::string> Blob(int column) const;

 private:
  friend class Snapshot;
  struct Bytes {
    std::string text;
  };
  using Cell = std::variant<std::monostate, int64_t, double, std::string, Bytes>;
  enum class State { kNew, kFirst, kCursor, kEnded };

  Select(Snapshot* snapshot, std::string sql, bool ordered, std::string cursor)
      : snapshot_(snapshot), sql_(std::move(sql)), ordered_(ordered), cursor_(std::move(cursor)) {}
  Result<void> Begin();     // the first piece
  Result<void> Continue();  // the next, by a cursor
  Result<void> Read(Rows rows);
  Error Failed(Error error);
  const Cell* At(int column) const;

  Snapshot* snapshot_;  // borrowed
  std::string sql_;
  bool ordered_;          // rows come in the same order each time
  std::string cursor_;    // its name
  std::string prepared_;  // the name of the first piece's statement; "" before it was run
  Values values_;
  State state_ = State::kNew;
  int moment_ = 0;  // in which the cursor was opened
  int64_t pieces_ = 0;
  size_t columns_ = 0, rows_ = 0, next_ = 0;  // of the piece; next_: after the current row
  std::vector<Cell> cells_;
};

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_SELECT_H_
