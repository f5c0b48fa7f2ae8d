// PostgreSQL's client library, opened when it is first needed and never linked: a machine that asks
// no such database need not have it, and the program starts without it.
//
// The few functions of its stable C interface that we use stand here as pointers, with declarations
// of our own. The library stays open until the process ends. Safe from any thread; what the
// functions take (a connection, a result) belongs to one thread at a time.
#ifndef MPNANNY_BASE_OS_LIBPQ_H_
#define MPNANNY_BASE_OS_LIBPQ_H_

#include <chrono>

#include "base/result.h"

namespace mpnanny {

// The library's own objects, of which only addresses are known here.
struct PgConnection;
struct PgResult;
struct PgCancel;

// Values of the library's enums, as its interface fixes them.
inline constexpr int kPgConnectionOk = 0;
inline constexpr int kPgPollingReading = 1, kPgPollingWriting = 2, kPgPollingOk = 3;
enum class PgStatus {
  kEmpty = 0,
  kCommand = 1,  // done, without rows
  kRows = 2,     // done, with all rows
  kCopyOut = 3,
  kCopyIn = 4,
  kBadResponse = 5,
  kNotice = 6,
  kFatal = 7,
  kCopyBoth = 8,
  kSingleRow = 9,
};
inline constexpr int kPgFieldSqlState = 'C', kPgFieldMessage = 'M', kPgFieldDetail = 'D',
                     kPgFieldHint = 'H';

struct Libpq {
  PgConnection* (*PQconnectStartParams)(const char* const*, const char* const*, int);
  int (*PQconnectPoll)(PgConnection*);
  int (*PQstatus)(const PgConnection*);
  char* (*PQerrorMessage)(const PgConnection*);
  void (*PQfinish)(PgConnection*);
  int (*PQsocket)(const PgConnection*);
  int (*PQsetnonblocking)(PgConnection*, int);
  int (*PQserverVersion)(const PgConnection*);
  int (*PQconnectionNeedsPassword)(const PgConnection*);
  int (*PQtransactionStatus)(const PgConnection*);
  void (*(*PQsetNoticeProcessor)(PgConnection*, void (*)(void*, const char*), void*))(void*,
                                                                                      const char*);
  int (*PQsendQueryParams)(PgConnection*, const char*, int, const unsigned*, const char* const*,
                           const int*, const int*, int);
  int (*PQsendPrepare)(PgConnection*, const char*, const char*, int, const unsigned*);
  int (*PQsendQueryPrepared)(PgConnection*, const char*, int, const char* const*, const int*,
                             const int*, int);
  int (*PQsetSingleRowMode)(PgConnection*);
  int (*PQconsumeInput)(PgConnection*);
  int (*PQisBusy)(PgConnection*);
  int (*PQflush)(PgConnection*);
  PgResult* (*PQgetResult)(PgConnection*);
  int (*PQresultStatus)(const PgResult*);
  char* (*PQresultErrorMessage)(const PgResult*);
  char* (*PQresultErrorField)(const PgResult*, int);
  char* (*PQcmdTuples)(PgResult*);
  void (*PQclear)(PgResult*);
  int (*PQntuples)(const PgResult*);
  int (*PQnfields)(const PgResult*);
  char* (*PQfname)(const PgResult*, int);
  unsigned (*PQftype)(const PgResult*, int);
  char* (*PQgetvalue)(const PgResult*, int, int);
  int (*PQgetlength)(const PgResult*, int, int);
  int (*PQgetisnull)(const PgResult*, int, int);
  int (*PQputCopyData)(PgConnection*, const char*, int);
  int (*PQputCopyEnd)(PgConnection*, const char*);
  PgCancel* (*PQgetCancel)(PgConnection*);
  int (*PQcancel)(PgCancel*, char*, int);
  void (*PQfreeCancel)(PgCancel*);
};

// Unavailable where the machine has no such library, with how to get it.
Result<const Libpq*> OpenLibpq();

// Waits until the socket can be read, or written as well if `writing`; false if neither in time.
bool WaitForLibpq(int socket, bool reading, bool writing, std::chrono::milliseconds most);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_LIBPQ_H_
