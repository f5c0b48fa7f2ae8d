// The functions of base/os_libpq.h, looked up by name: what both kinds of systems do alike.
//
// A free function without state.
#ifndef MPNANNY_BASE_LIBPQ_FUNCTIONS_H_
#define MPNANNY_BASE_LIBPQ_FUNCTIONS_H_

#include <string>
#include <type_traits>

#include "base/os_libpq.h"

namespace mpnanny {

// Fills `functions` by `find(name)`, the address or null; the name of one that is missing, or "".
template <typename Find>
std::string FillLibpq(Libpq& functions, Find find) {
  std::string missing;
  const auto take = [&](auto& function, const char* name) {
    void* const address = find(name);
    if (address == nullptr && missing.empty()) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define MPN_TAKE(name) take(functions.name, #name)
  MPN_TAKE(PQconnectStartParams);
  MPN_TAKE(PQconnectPoll);
  MPN_TAKE(PQstatus);
  MPN_TAKE(PQerrorMessage);
  MPN_TAKE(PQfinish);
  MPN_TAKE(PQsocket);
  MPN_TAKE(PQsetnonblocking);
  MPN_TAKE(PQserverVersion);
  MPN_TAKE(PQconnectionNeedsPassword);
  MPN_TAKE(PQtransactionStatus);
  MPN_TAKE(PQsetNoticeProcessor);
  MPN_TAKE(PQsendQueryParams);
  MPN_TAKE(PQsendPrepare);
  MPN_TAKE(PQsendQueryPrepared);
  MPN_TAKE(PQsetSingleRowMode);
  MPN_TAKE(PQconsumeInput);
  MPN_TAKE(PQisBusy);
  MPN_TAKE(PQflush);
  MPN_TAKE(PQgetResult);
  MPN_TAKE(PQresultStatus);
  MPN_TAKE(PQresultErrorMessage);
  MPN_TAKE(PQresultErrorField);
  MPN_TAKE(PQcmdTuples);
  MPN_TAKE(PQclear);
  MPN_TAKE(PQntuples);
  MPN_TAKE(PQnfields);
  MPN_TAKE(PQfname);
  MPN_TAKE(PQftype);
  MPN_TAKE(PQgetvalue);
  MPN_TAKE(PQgetlength);
  MPN_TAKE(PQgetisnull);
  MPN_TAKE(PQputCopyData);
  MPN_TAKE(PQputCopyEnd);
  MPN_TAKE(PQgetCancel);
  MPN_TAKE(PQcancel);
  MPN_TAKE(PQfreeCancel);
#undef MPN_TAKE
  return missing;
}

}  // namespace mpnanny

#endif  // MPNANNY_BASE_LIBPQ_FUNCTIONS_H_
