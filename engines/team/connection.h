// One connection to a PostgreSQL server, by libpq, which is opened when it is first needed.
//
// Every wait, for the connection, an answer, or room to send, ends when the CancelToken stops: the
// server is then asked to give the query up. A server that does not answer at all ends a wait only
// by the token or a limit, so give one. After an error the connection may still be good (`alive`);
// where it is not, open another. A Connection belongs to one thread and outlives its Rows; at most
// one Rows or CopyIn of it exists at a time.
#ifndef MPNANNY_ENGINES_TEAM_CONNECTION_H_
#define MPNANNY_ENGINES_TEAM_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/cancel.h"
#include "base/os_libpq.h"
#include "base/result.h"
#include "engines/team/address.h"

namespace mpnanny::team {

class Connection;

// A parameter of a query: $1 is the first. The server knows its type from where it stands
// ("$1::bigint" where it cannot).
using Value = std::variant<std::monostate, int64_t, double, std::string>;
using Values = std::vector<Value>;

// The rows of one query as the server sends them, which need not fit into memory. Columns count
// from 0. Integers, double precision and real, text and bytea are read; cast others (numeric!) in
// the query. A value of another type than asked for reads as absent, as of runs::Statement.
class Rows {
 public:
  Rows(Rows&&) noexcept;
  Rows& operator=(Rows&&) = delete;
  ~Rows();  // gives the query up where it is not at its end

  Result<bool> Next();  // to the next row; false at the end

  std::optional<int64_t> Int(int column) const;
  std::optional<double> Real(int column) const;  // of an integer as well
  std::optional<std::string> Text(int column) const;
  std::optional<std::string> Blob(int column) const;
  // Of an array of integers; what is NULL in it is left out.
  std::optional<std::vector<int64_t>> Ints(int column) const;
  int64_t IntOr(int column, int64_t otherwise) const { return Int(column).value_or(otherwise); }
  std::string TextOr(int column, std::string_view otherwise = "") const {
    return Text(column).value_or(std::string(otherwise));
  }
  bool IsNull(int column) const;
  int columns() const;
  std::string Name(int column) const;

 private:
  friend class Connection;
  explicit Rows(Connection* connection) : connection_(connection) {}
  std::string_view Bytes(int column) const;  // as the server sent them

  Connection* connection_;  // borrowed; null: moved from, or at the end
  PgResult* row_ = nullptr;
};

class Connection {
 public:
  struct Options {
    std::string application = "mpnanny";
    std::chrono::milliseconds connect_limit{10'000};
    // What the server itself gives a statement; zero: no limit. A token's deadline holds beside it.
    std::chrono::milliseconds statement_limit{0};
    // How long a statement is waited for here, whether or not the server still works on it; zero:
    // as long as the token lets.
    std::chrono::milliseconds answer_limit{0};
    bool read_only = false;  // the server refuses every change
  };

  // Errors say whether the server is not there, the password is wrong, or the database is missing,
  // and what to try; none holds a password.
  static Result<std::unique_ptr<Connection>> Open(const Address& address, const CancelToken& cancel,
                                                  const Options& options);
  static Result<std::unique_ptr<Connection>> Open(const Address& address,
                                                  const CancelToken& cancel) {
    return Open(address, cancel, Options());
  }
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One statement. Rows that nobody reads are dropped; returns how many rows it touched.
  Result<int64_t> Execute(const std::string& sql, const Values& values = {});
  // One statement whose rows are read one by one.
  Result<Rows> Query(const std::string& sql, const Values& values = {});

  // A statement under a name, understood once and then run with other values.
  Result<void> Prepare(const std::string& name, const std::string& sql);
  Result<Rows> QueryPrepared(const std::string& name, const Values& values);

  // COPY … FROM STDIN: begin, send bytes as often as wanted, end. Returns how many rows came in.
  Result<void> BeginCopy(const std::string& sql);
  Result<void> SendCopy(std::string_view bytes);
  Result<int64_t> EndCopy();

  // From now on waits end with this token.
  void SetCancel(const CancelToken& cancel) { cancel_ = cancel; }
  const Address& address() const { return address_; }
  int server_version() const;  // 150006
  bool alive() const;          // false: the connection is lost or in an unknown state
  // SQLSTATE of the last error ("42P01"), "" if it was none of the server's.
  const std::string& state() const { return state_; }

 private:
  friend class Rows;
  Connection(const Libpq& pq, Address address, CancelToken cancel)
      : pq_(pq), address_(std::move(address)), cancel_(std::move(cancel)) {}

  Result<void> Wait(bool writing);  // until the socket is ready
  Result<void> Flush();
  Result<PgResult*> NextResult();  // null: the statement is over
  // `prepared`: `sql` is the name of a statement.
  Result<void> Send(const std::string& sql, const Values& values, bool prepared = false);
  Result<int64_t> Finish();  // all results of what was sent
  bool AtEnd();
  void GiveUp();       // cancels what runs, and reads to its end or drops the connection
  Error Lost() const;  // the connection's own error
  Error Failed(PgResult* result);  // the statement's

  const Libpq& pq_;
  Address address_;
  CancelToken cancel_;
  PgConnection* connection_ = nullptr;
  std::string state_;
  bool broken_ = false;
  std::chrono::milliseconds answer_limit_{0};
  CancelToken::Clock::time_point sent_;  // the last statement
};

// "\"name\"": a name of a table or a column in a statement.
std::string Quoted(std::string_view name);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_CONNECTION_H_
