// Requests as cpp-httplib has read them, before it or we act on them.
//
// For listener.cc only, which alone knows the library. Free functions.
#ifndef MPNANNY_SERVER_TRANSPORT_HTTP_LIBRARY_REQUESTS_H_
#define MPNANNY_SERVER_TRANSPORT_HTTP_LIBRARY_REQUESTS_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

// The library's own limit of a header line; the head as a whole is bounded in connection.cc.
#define CPPHTTPLIB_LISTEN_BACKLOG 512
#include <httplib.h>

#include "base/text.h"

namespace mpnanny {

// True if one of the comma-separated words of the header's lines is `word` (in small letters).
inline bool HasToken(const httplib::Headers& headers, const char* name, std::string_view word) {
  const auto lines = headers.equal_range(name);
  for (auto line = lines.first; line != lines.second; ++line) {
    std::string token;
    for (const char c : line->second + ",") {
      if (c == ',') {
        if (LowerCase(token) == word) return true;
        token.clear();
      } else if (c != ' ' && c != '\t') {
        token += c;
      }
    }
  }
  return false;
}

// Whether bytes may follow the head that belong to this request.
inline bool AnnouncesBody(const httplib::Headers& headers) {
  if (headers.count("Transfer-Encoding") > 0) return true;
  const auto lengths = headers.equal_range("Content-Length");
  return std::any_of(lengths.first, lengths.second,
                     [](const auto& line) { return line.second != "0"; });
}

// "POST http://HOST/path": the host there counts, not the header's (RFC 9112, 3.2.2).
inline void TakeAbsoluteTarget(httplib::Request& request) {
  constexpr std::string_view kScheme = "http://";
  if (!request.target.starts_with(kScheme) || request.headers.count("Host") != 1) return;
  const size_t end =
      std::min(request.target.find_first_of("/?", kScheme.size()), request.target.size());
  const std::string host = request.target.substr(kScheme.size(), end - kScheme.size());
  // The path has been decoded, which must not have moved where it begins.
  if (host.find('%') != std::string::npos || request.path.size() < end) return;
  request.headers.erase("Host");
  request.headers.emplace("Host", host);
  request.path = request.path.size() == end ? "/" : request.path.substr(end);
}

// Takes from a request what the library would act upon by itself and we do not serve. True: what
// follows the request cannot be trusted to be the next one.
inline bool TakeWhatIsNotServed(httplib::Request& request) {
  request.ranges.clear();  // an answer is a message: a part of it is none
  request.headers.erase("Range");
  if (request.headers.count("Accept") > 1) {
    std::string all;
    const auto lines = request.headers.equal_range("Accept");
    for (auto line = lines.first; line != lines.second; ++line) {
      all += (all.empty() ? "" : ", ") + line->second;
    }
    request.headers.erase("Accept");
    request.headers.emplace("Accept", std::move(all));
  }
  TakeAbsoluteTarget(request);
  // Whoever asks for another protocol may go on in it without waiting for the answer.
  return request.headers.erase("Upgrade") > 0;
}

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSPORT_HTTP_LIBRARY_REQUESTS_H_
