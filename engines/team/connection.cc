#include "engines/team/connection.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <future>
#include <thread>

#include "base/text.h"
#include "engines/team/failure.h"

namespace mpnanny::team {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{50};  // whether the token has stopped
constexpr std::chrono::milliseconds kGiveUpLimit{1'000};

void Silent(void*, const char*) {}  // libpq would print the server's notices on stderr

// Asks the server, on a connection of its own, to stop what it does for `cancel`, which is ours.
// False if it did not take that in time: the library would wait for a server that is stopped for
// ever, so it waits in a thread that nobody waits for then.
bool AskToStop(const Libpq& pq, PgCancel* cancel, std::chrono::milliseconds limit) {
  std::promise<void> promise;
  std::future<void> asked = promise.get_future();
  std::thread([&pq, cancel, promise = std::move(promise)]() mutable {
    char why[256];
    pq.PQcancel(cancel, why, sizeof why);
    pq.PQfreeCancel(cancel);
    promise.set_value();
  }).detach();
  return asked.wait_for(limit) == std::future_status::ready;
}

std::string TextOf(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const double real = std::get<double>(value);
  if (std::isnan(real)) return "NaN";
  if (std::isinf(real)) return real > 0 ? "Infinity" : "-Infinity";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, real);
  return std::string(buffer, end.ptr);
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::Open(const Address& address,
                                                     const CancelToken& cancel,
                                                     const Options& options) {
  MPN_TRY_ASSIGN(const Libpq* pq, OpenLibpq());
  std::vector<std::string> names, values;
  const auto set = [&](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    names.push_back(name);
    values.push_back(value);
  };
  set("host", address.host);
  set("port", address.port);
  set("user", address.user);
  set("dbname", address.database);
  // A peer that has vanished without a word is noticed.
  for (const auto& [name, value] : {std::pair("keepalives_idle", "15"),
                                    {"keepalives_interval", "5"},
                                    {"keepalives_count", "3"},
                                    {"tcp_user_timeout", "20000"}}) {
    if (!address.options.contains(name)) set(name, value);
  }
  for (const auto& [name, value] : address.options) set(name, value);
  set("client_encoding", "UTF8");
  set("fallback_application_name", options.application);
  std::vector<const char*> keywords, words;
  for (size_t i = 0; i < names.size(); ++i) {
    keywords.push_back(names[i].c_str());
    words.push_back(values[i].c_str());
  }
  keywords.push_back(nullptr);
  words.push_back(nullptr);

  std::unique_ptr<Connection> connection(new Connection(*pq, address, cancel));
  connection->connection_ = pq->PQconnectStartParams(keywords.data(), words.data(), 0);
  if (connection->connection_ == nullptr) return Unavailable("No memory for a connection.");
  pq->PQsetNoticeProcessor(connection->connection_, Silent, nullptr);
  const Clock::time_point until = Clock::now() + options.connect_limit;
  int state = kPgPollingWriting;
  while (state != kPgPollingOk) {
    if (pq->PQsocket(connection->connection_) < 0 ||
        (state != kPgPollingReading && state != kPgPollingWriting)) {
      return ConnectFailure(address, pq->PQerrorMessage(connection->connection_));
    }
    MPN_TRY(cancel.Check());
    if (Clock::now() >= until) return ConnectTimedOut(address, options.connect_limit);
    if (WaitForLibpq(pq->PQsocket(connection->connection_), state == kPgPollingReading,
                     state == kPgPollingWriting, kLookAgain)) {
      state = pq->PQconnectPoll(connection->connection_);
    }
  }
  if (pq->PQstatus(connection->connection_) != kPgConnectionOk) {
    return ConnectFailure(address, pq->PQerrorMessage(connection->connection_));
  }
  if (pq->PQserverVersion(connection->connection_) < kOldestServer) {
    return ServerTooOld(address, pq->PQserverVersion(connection->connection_));
  }
  pq->PQsetnonblocking(connection->connection_, 1);
  connection->answer_limit_ = options.answer_limit;
  // Not as start-up options, which poolers refuse. Text of a statement means what it says, and
  // nobody else's schema stands in between.
  std::string setup = "SELECT set_config('search_path', 'mpnanny,pg_catalog,pg_temp', false)";
  setup += ", set_config('statement_timeout', '" + std::to_string(options.statement_limit.count()) +
           "', false)";
  if (options.read_only) setup += ", set_config('default_transaction_read_only', 'on', false)";
  MPN_TRY(connection->Execute(setup));
  return connection;
}

Connection::~Connection() {
  if (connection_ != nullptr) pq_.PQfinish(connection_);
}

int Connection::server_version() const { return pq_.PQserverVersion(connection_); }

bool Connection::alive() const { return !broken_ && pq_.PQstatus(connection_) == kPgConnectionOk; }

Error Connection::Lost() const { return ConnectionLost(address_, pq_.PQerrorMessage(connection_)); }

Error Connection::Failed(PgResult* result) {
  const auto field = [&](int code) {
    const char* const text = pq_.PQresultErrorField(result, code);
    return std::string(text != nullptr ? text : "");
  };
  state_ = field(kPgFieldSqlState);
  std::string message = field(kPgFieldMessage);
  if (message.empty()) message = pq_.PQresultErrorMessage(result);
  if (const std::string detail = field(kPgFieldDetail); !detail.empty()) message += ": " + detail;
  pq_.PQclear(result);
  if (!alive()) return ConnectionLost(address_, message);
  return StatementFailure(address_, state_, message, cancel_);
}

Result<void> Connection::Wait(bool writing) {
  const int socket = pq_.PQsocket(connection_);
  if (socket < 0) return Lost();
  while (!WaitForLibpq(socket, true, writing, kLookAgain)) {
    if (cancel_.stop_requested()) return cancel_.Check();
    if (answer_limit_.count() > 0 && Clock::now() - sent_ > answer_limit_) {
      return AnswerTimedOut(address_, answer_limit_);
    }
  }
  return {};
}

Result<void> Connection::Flush() {
  while (true) {
    const int left = pq_.PQflush(connection_);
    if (left == 0) return {};
    if (left < 0) return Lost();
    if (auto waited = Wait(true); !waited) {
      broken_ = true;  // half a message is out
      return waited;
    }
    // What the server says while it takes ours must be read, or both would wait.
    if (!pq_.PQconsumeInput(connection_)) return Lost();
  }
}

Result<void> Connection::Send(const std::string& sql, const Values& values, bool prepared) {
  state_.clear();
  sent_ = Clock::now();
  if (!alive()) return Lost();
  std::vector<std::string> texts;
  texts.reserve(values.size());
  std::vector<const char*> words;
  for (const Value& value : values) {
    texts.push_back(std::holds_alternative<std::monostate>(value) ? "" : TextOf(value));
    words.push_back(std::holds_alternative<std::monostate>(value) ? nullptr : texts.back().c_str());
  }
  const int count = static_cast<int>(words.size());
  const int sent = prepared ? pq_.PQsendQueryPrepared(connection_, sql.c_str(), count, words.data(),
                                                      nullptr, nullptr, 1)
                            : pq_.PQsendQueryParams(connection_, sql.c_str(), count, nullptr,
                                                    words.data(), nullptr, nullptr, 1);
  if (!sent) return Lost();
  return {};
}

Result<PgResult*> Connection::NextResult() {
  if (auto flushed = Flush(); !flushed) return flushed.error();
  while (pq_.PQisBusy(connection_)) {
    MPN_TRY(Wait(false));
    if (!pq_.PQconsumeInput(connection_)) return Lost();
  }
  return pq_.PQgetResult(connection_);
}

Result<int64_t> Connection::Execute(const std::string& sql, const Values& values) {
  MPN_TRY(Send(sql, values));
  return Finish();
}

Result<int64_t> Connection::Finish() {
  int64_t touched = 0;
  std::optional<Error> failed;
  while (true) {
    auto result = NextResult();
    if (!result) {
      GiveUp();
      return result.error();
    }
    if (*result == nullptr) break;
    const auto status = static_cast<PgStatus>(pq_.PQresultStatus(*result));
    if (status == PgStatus::kFatal || status == PgStatus::kBadResponse) {
      if (!failed)
        failed = Failed(*result);
      else
        pq_.PQclear(*result);
      continue;
    }
    const char* const count = pq_.PQcmdTuples(*result);
    touched = std::strtoll(count, nullptr, 10);
    pq_.PQclear(*result);
    if (status == PgStatus::kCopyIn || status == PgStatus::kCopyOut) break;
  }
  if (failed) return *failed;
  return touched;
}

Result<Rows> Connection::Query(const std::string& sql, const Values& values) {
  MPN_TRY(Send(sql, values));
  pq_.PQsetSingleRowMode(connection_);
  return Rows(this);
}

Result<void> Connection::Prepare(const std::string& name, const std::string& sql) {
  state_.clear();
  sent_ = Clock::now();
  if (!alive() || !pq_.PQsendPrepare(connection_, name.c_str(), sql.c_str(), 0, nullptr)) {
    return Lost();
  }
  MPN_TRY(Finish());
  return {};
}

Result<Rows> Connection::QueryPrepared(const std::string& name, const Values& values) {
  MPN_TRY(Send(name, values, true));
  pq_.PQsetSingleRowMode(connection_);
  return Rows(this);
}

Result<void> Connection::BeginCopy(const std::string& sql) {
  MPN_TRY(Execute(sql));
  return {};
}

Result<void> Connection::SendCopy(std::string_view bytes) {
  constexpr size_t kPart = 1 << 16;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kPart);
    const int sent = pq_.PQputCopyData(connection_, part.data(), static_cast<int>(part.size()));
    if (sent < 0) return Lost();
    if (sent > 0) bytes.remove_prefix(part.size());
    // What is sent does not pile up here: a slow server makes us wait.
    MPN_TRY(Flush());
  }
  return {};
}

Result<int64_t> Connection::EndCopy() {
  while (true) {
    const int ended = pq_.PQputCopyEnd(connection_, nullptr);
    if (ended < 0) return Lost();
    if (ended > 0) break;
    MPN_TRY(Wait(true));
  }
  int64_t rows = 0;
  std::optional<Error> failed;
  while (true) {
    auto result = NextResult();
    if (!result) {
      GiveUp();
      return result.error();
    }
    if (*result == nullptr) break;
    if (static_cast<PgStatus>(pq_.PQresultStatus(*result)) == PgStatus::kCommand) {
      rows = std::strtoll(pq_.PQcmdTuples(*result), nullptr, 10);
      pq_.PQclear(*result);
    } else if (!failed) {
      failed = Failed(*result);
    } else {
      pq_.PQclear(*result);
    }
  }
  if (failed) return *failed;
  return rows;
}

// True if the statement was at its end already, but for what says so.
bool Connection::AtEnd() {
  for (int i = 0; i < 4; ++i) {
    if (!pq_.PQconsumeInput(connection_) || pq_.PQisBusy(connection_)) return false;
    PgResult* const result = pq_.PQgetResult(connection_);
    if (result == nullptr) return true;
    const auto status = static_cast<PgStatus>(pq_.PQresultStatus(result));
    pq_.PQclear(result);
    if (status == PgStatus::kCopyIn || status == PgStatus::kCopyOut) return false;
  }
  return false;
}

void Connection::GiveUp() {
  if (!alive() || AtEnd()) return;
  PgCancel* const cancel = pq_.PQgetCancel(connection_);
  if (cancel != nullptr && !AskToStop(pq_, cancel, kGiveUpLimit)) {
    broken_ = true;  // it may still stop something, and nobody knows what
    return;
  }
  const Clock::time_point until = Clock::now() + kGiveUpLimit;
  while (true) {
    while (pq_.PQisBusy(connection_)) {
      if (Clock::now() >= until) {
        broken_ = true;
        return;
      }
      if (!WaitForLibpq(pq_.PQsocket(connection_), true, false, kLookAgain)) continue;
      if (!pq_.PQconsumeInput(connection_)) {
        broken_ = true;
        return;
      }
    }
    PgResult* const result = pq_.PQgetResult(connection_);
    if (result == nullptr) return;
    const auto status = static_cast<PgStatus>(pq_.PQresultStatus(result));
    pq_.PQclear(result);
    if (status == PgStatus::kCopyIn || status == PgStatus::kCopyOut) {
      broken_ = true;  // in the middle of a COPY: nothing else can be said on this connection
      return;
    }
  }
}

std::string Quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace mpnanny::team
