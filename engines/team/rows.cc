// Rows: values as the server sends them, in its binary form.
#include <bit>
#include <cstring>

#include "engines/team/connection.h"

namespace mpnanny::team {
namespace {

// Numbers of PostgreSQL's own types, which never change.
enum Type : unsigned {
  kBool = 16,
  kBytea = 17,
  kName = 19,
  kInt8 = 20,
  kInt2 = 21,
  kInt4 = 23,
  kText = 25,
  kOid = 26,
  kJson = 114,
  kFloat4 = 700,
  kFloat8 = 701,
  kUnknown = 705,
  kInt4Array = 1007,
  kInt8Array = 1016,
  kBpchar = 1042,
  kVarchar = 1043,
};

// Most significant byte first.
uint64_t Unsigned(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::optional<int64_t> Integer(std::string_view bytes) {
  switch (bytes.size()) {
    case 1:
      return bytes[0] != 0;
    case 2:
      return static_cast<int16_t>(Unsigned(bytes));
    case 4:
      return static_cast<int32_t>(Unsigned(bytes));
    case 8:
      return static_cast<int64_t>(Unsigned(bytes));
    default:
      return std::nullopt;
  }
}

}  // namespace

Rows::Rows(Rows&& other) noexcept : connection_(other.connection_), row_(other.row_) {
  other.connection_ = nullptr;
  other.row_ = nullptr;
}

Rows::~Rows() {
  if (connection_ == nullptr) return;
  if (row_ != nullptr) connection_->pq_.PQclear(row_);
  connection_->GiveUp();
}

Result<bool> Rows::Next() {
  if (connection_ == nullptr) return false;
  Connection& connection = *connection_;
  if (row_ != nullptr) connection.pq_.PQclear(row_);
  row_ = nullptr;
  while (true) {
    auto result = connection.NextResult();
    if (!result) {
      connection.GiveUp();
      connection_ = nullptr;
      return result.error();
    }
    if (*result == nullptr) {
      connection_ = nullptr;
      return false;
    }
    const auto status = static_cast<PgStatus>(connection.pq_.PQresultStatus(*result));
    if (status == PgStatus::kSingleRow) {
      row_ = *result;
      return true;
    }
    if (status == PgStatus::kRows || status == PgStatus::kCommand) {
      connection.pq_.PQclear(*result);  // what tells that all rows have come
      continue;
    }
    Error error = connection.Failed(*result);
    connection.GiveUp();
    connection_ = nullptr;
    return error;
  }
}

std::string_view Rows::Bytes(int column) const {
  const Libpq& pq = connection_->pq_;
  return {pq.PQgetvalue(row_, 0, column), static_cast<size_t>(pq.PQgetlength(row_, 0, column))};
}

bool Rows::IsNull(int column) const {
  return row_ == nullptr || column >= connection_->pq_.PQnfields(row_) ||
         connection_->pq_.PQgetisnull(row_, 0, column) != 0;
}

int Rows::columns() const { return row_ == nullptr ? 0 : connection_->pq_.PQnfields(row_); }

std::string Rows::Name(int column) const {
  return row_ == nullptr ? "" : connection_->pq_.PQfname(row_, column);
}

std::optional<int64_t> Rows::Int(int column) const {
  if (IsNull(column)) return std::nullopt;
  switch (connection_->pq_.PQftype(row_, column)) {
    case kInt2:
    case kInt4:
    case kInt8:
    case kBool:
      return Integer(Bytes(column));
    case kOid:
      return static_cast<int64_t>(Unsigned(Bytes(column)));
    default:
      return std::nullopt;
  }
}

std::optional<double> Rows::Real(int column) const {
  if (IsNull(column)) return std::nullopt;
  switch (connection_->pq_.PQftype(row_, column)) {
    case kFloat8:
      return std::bit_cast<double>(Unsigned(Bytes(column)));
    case kFloat4:
      return std::bit_cast<float>(static_cast<uint32_t>(Unsigned(Bytes(column))));
    default:
      if (const auto integer = Int(column)) return static_cast<double>(*integer);
      return std::nullopt;
  }
}

std::optional<std::string> Rows::Text(int column) const {
  if (IsNull(column)) return std::nullopt;
  switch (connection_->pq_.PQftype(row_, column)) {
    case kText:
    case kVarchar:
    case kBpchar:
    case kName:
    case kJson:
    case kUnknown:
      return std::string(Bytes(column));
    default:
      return std::nullopt;
  }
}

std::optional<std::string> Rows::Blob(int column) const {
  if (IsNull(column) || connection_->pq_.PQftype(row_, column) != kBytea) return std::nullopt;
  return std::string(Bytes(column));
}

std::optional<std::vector<int64_t>> Rows::Ints(int column) const {
  if (IsNull(column)) return std::nullopt;
  const unsigned type = connection_->pq_.PQftype(row_, column);
  if (type != kInt4Array && type != kInt8Array) return std::nullopt;
  // Dimensions, whether there are NULLs, the elements' type; of each dimension its length and
  // where it begins; then of each element its length and its bytes.
  std::string_view bytes = Bytes(column);
  const auto take = [&](size_t count) {
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(taken.size());
    return taken;
  };
  std::vector<int64_t> found;
  const uint64_t dimensions = Unsigned(take(4));
  take(8 + 8 * dimensions);
  while (bytes.size() >= 4) {
    const auto length = static_cast<int32_t>(Unsigned(take(4)));
    if (length < 0) continue;
    if (const auto value = Integer(take(static_cast<size_t>(length)))) found.push_back(*value);
  }
  return found;
}

}  // namespace mpnanny::team
