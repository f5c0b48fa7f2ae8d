// An HTTP client on a bare socket, so that a test can send what no well-behaved client would, and
// read an answer piece by piece.
//
// Reading gives up after 20 s, so that a silent server fails a test instead of hanging it.
#ifndef MPNANNY_TESTS_HTTP_HTTP_CLIENT_H_
#define MPNANNY_TESTS_HTTP_HTTP_CLIENT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mpnanny {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Reply {
  int status = 0;                              // 0: the connection ended instead
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;

  Json json() const;  // of the body; null (and a failure) if it is none
  std::string header(const std::string& name) const;
};

struct Event {
  std::string id;
  std::string retry;
  std::string data;
  Json json() const;
};

class HttpClient {
 public:
  explicit HttpClient(int port, int receive_buffer = 0);
  ~HttpClient() { Close(); }
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False if the server has closed.
  bool SendRaw(std::string_view bytes);
  // Sends a request with Host and, where there is a body, Content-Length, Content-Type and Accept;
  // `headers` are added, or replace those of the same name ("" leaves one out).
  void Send(const std::string& method, const Headers& headers, const std::string& body = "");
  void Post(const Json& message, const Headers& headers = {});
  // A modern request with the headers that it needs.
  void PostModern(const Json& message);

  // The head of an answer; the body is still to be read.
  Reply ReadHead();
  // The whole answer.
  Reply Read();
  // The next event of a stream, comments skipped; nullopt at its end.
  std::optional<Event> ReadEvent();
  // The next event's message.
  Json ReadMessage();
  // True if the server closes now (what it still sends is read and dropped).
  bool ReadsEnd();
  // That.
  const std::string& dropped() const { return dropped_; }

  // Closes so that the server notices at once.
  void Close();
  void ShutdownWrite();

 private:
  bool Fill();
  std::string Take(size_t bytes);
  std::string TakeLine();

  int socket_ = -1;
  std::string buffer_;
  bool chunked_ = false;
  bool stream_over_ = false;
  std::string events_;
  std::string dropped_;
};

Json ModernRequest(Json id, const std::string& method, Json params = Json::object());
Json CallTool(Json id, const std::string& tool, Json arguments = Json::object());
Json Legacy(Json id, const std::string& method, Json params = Json::object());
Json LegacyCall(Json id, const std::string& tool, Json arguments = Json::object());
Json Initialize(const std::string& version, Json capabilities = Json::object());

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_HTTP_HTTP_CLIENT_H_
