#include "engines/team/select.h"

#include <cmath>

#include "base/text.h"
#include "engines/team/snapshot.h"

namespace mpnanny::team {
namespace {

// Most questions are answered by some rows; who reads on reads many.
constexpr size_t kFirstRows = 256, kRows = 2048;
// Of a piece. Values are cut long before (Snapshot::RowsOf); this bounds many of them.
constexpr size_t kMostBytes = 64 << 20;

}  // namespace

void Select::Bind(int index, Value value) {
  if (values_.size() < static_cast<size_t>(index)) values_.resize(static_cast<size_t>(index));
  values_[static_cast<size_t>(index) - 1] = std::move(value);
}

void Select::Reset() {
  state_ = State::kNew;
  cells_.clear();
  rows_ = next_ = 0;
}

Error Select::Failed(Error error) {
  const std::string state = snapshot_->connection_->state();
  snapshot_->BeginAgain();
  // What does not fit the statement is a database that somebody changed.
  if (state.starts_with("42") && state != "42501" && state != "42P01") {
    return DataCorrupt(error.message, "`mpnanny ship --setup URL` brings its tables up to date.");
  }
  if (state.starts_with("22") || state.starts_with("XX")) {
    return DataCorrupt(error.message, "The database may be damaged: ask its administrator.");
  }
  return error;
}

Result<void> Select::Read(Rows rows) {
  cells_.clear();
  rows_ = next_ = 0;
  size_t bytes = 0;
  while (true) {
    auto next = rows.Next();
    if (!next) return Failed(next.error());
    if (!*next) return {};
    columns_ = static_cast<size_t>(rows.columns());
    ++rows_;
    for (int column = 0; column < static_cast<int>(columns_); ++column) {
      Cell& cell = cells_.emplace_back();
      if (rows.IsNull(column)) continue;
      if (const auto integer = rows.Int(column)) {
        cell = *integer;
      } else if (const auto real = rows.Real(column)) {
        if (!std::isnan(*real)) cell = *real;  // a monitor's file holds none
      } else if (auto text = rows.Text(column)) {
        bytes += text->size();
        cell = *std::move(text);
      } else if (auto blob = rows.Blob(column)) {
        bytes += blob->size();
        cell = Bytes{*std::move(blob)};
      }
    }
    if (bytes > kMostBytes) {
      return DataCorrupt(
          EscapeControl(UrlOf(snapshot_->address())) + " holds values that are too large to read.",
          "No monitor writes such: somebody else changed the tables.");
    }
  }
}

Result<void> Select::Begin() {
  if (prepared_.empty()) {
    auto prepared = snapshot_->PreparedAs("SELECT * FROM (" + sql_ + ") AS q LIMIT " +
                                          std::to_string(kFirstRows));
    if (!prepared) return Failed(prepared.error());
    prepared_ = *std::move(prepared);
  }
  auto rows = snapshot_->connection_->QueryPrepared(prepared_, values_);
  if (!rows) return Failed(rows.error());
  MPN_TRY(Read(*std::move(rows)));
  state_ = rows_ < kFirstRows ? State::kEnded : State::kFirst;
  // Without an order the same rows need not come first again.
  if (state_ == State::kFirst && !ordered_) return Continue();
  return {};
}

Result<void> Select::Continue() {
  Connection& connection = *snapshot_->connection_;
  if (state_ == State::kFirst) {
    if (pieces_++ > 0 && moment_ == snapshot_->moment_) {
      if (auto done = connection.Execute("CLOSE " + cursor_); !done) return Failed(done.error());
    }
    moment_ = snapshot_->moment_;
    const std::string sql = "DECLARE " + cursor_ + " NO SCROLL CURSOR FOR SELECT * FROM (" + sql_ +
                            ") AS q" + (ordered_ ? " OFFSET " + std::to_string(kFirstRows) : "");
    if (auto done = connection.Execute(sql, values_); !done) return Failed(done.error());
    state_ = State::kCursor;
  }
  if (moment_ != snapshot_->moment_) {
    return Unavailable("Another question failed while this one was read.", "Ask again.");
  }
  auto rows = connection.Query("FETCH " + std::to_string(kRows) + " FROM " + cursor_);
  if (!rows) return Failed(rows.error());
  MPN_TRY(Read(*std::move(rows)));
  if (rows_ < kRows) state_ = State::kEnded;
  return {};
}

Result<bool> Select::Next() {
  if (next_ >= rows_) {
    if (state_ == State::kEnded) return false;
    MPN_TRY(state_ == State::kNew ? Begin() : Continue());
    if (rows_ == 0) return false;
  }
  ++next_;
  return true;
}

const Select::Cell* Select::At(int column) const {
  if (next_ == 0 || column < 0 || static_cast<size_t>(column) >= columns_) return nullptr;
  return &cells_[(next_ - 1) * columns_ + static_cast<size_t>(column)];
}

std::optional<int64_t> Select::Int(int column) const {
  const Cell* const cell = At(column);
  const auto* const value = cell ? std::get_if<int64_t>(cell) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<double> Select::Real(int column) const {
  const Cell* const cell = At(column);
  if (!cell) return std::nullopt;
  if (const auto* const value = std::get_if<double>(cell)) return *value;
  const auto integer = Int(column);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<std::string> Select::Text(int column) const {
  const Cell* const cell = At(column);
  const auto* const value = cell ? std::get_if<std::string>(cell) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<std::string> Select::Blob(int column) const {
  const Cell* const cell = At(column);
  const auto* const value = cell ? std::get_if<Bytes>(cell) : nullptr;
  return value ? std::optional(value->text) : std::nullopt;
}

}  // namespace mpnanny::team
