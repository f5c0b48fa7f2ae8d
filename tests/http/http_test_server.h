// A server in this process, on a real port, with tools that a test can hold and let go.
#ifndef MPNANNY_TESTS_HTTP_HTTP_TEST_SERVER_H_
#define MPNANNY_TESTS_HTTP_HTTP_TEST_SERVER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/http_server.h"
#include "server/registry.h"
#include "tests/http/http_client.h"

namespace mpnanny {

// Where a tool waits until the test lets it go on. Waiting ends after 20 s.
class Gate {
 public:
  void Arrive() { Set(arrived_); }
  void Open() { Set(open_); }
  bool WaitArrived() { return Wait(arrived_); }
  bool WaitOpen() { return Wait(open_); }

 private:
  void Set(bool& what);
  bool Wait(bool& what);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false;
  bool open_ = false;
};

// Tools: echo {text}; large {bytes}; count {to} (progress at each); held (arrives at the gate,
// tells progress 1, waits, tells progress 2 and ends); heeds_cancel (arrives; opens the gate when
// it is cancelled); ask (elicitation); change (tools/list_changed); suspend (progress 1, ends the
// stream, progress 2 when the gate is open); mirrored {region} (x-mcp-header "Region").
Registry HttpRegistry(const std::shared_ptr<Gate>& gate);

class HttpTestServer {
 public:
  explicit HttpTestServer(HttpServerOptions options = {});
  ~HttpTestServer() { Stop(); }

  void Stop();
  HttpClient Connect() const { return HttpClient(port_); }
  int port() const { return port_; }

  // A legacy session; its id.
  std::string StartSession(const std::string& version = "2025-11-25",
                           Json capabilities = Json::object());

  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  bool ended_well = false;

 private:
  int port_ = 0;
  StopEvent stop_;
  std::thread thread_;
};

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_HTTP_HTTP_TEST_SERVER_H_
