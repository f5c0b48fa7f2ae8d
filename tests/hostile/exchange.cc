#include "tests/hostile/exchange.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "base/text.h"

namespace mpnanny::hostile {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{30};

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ADD_FAILURE() << "nobody listens on port " << port;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

// "5\r\nhello\r\n0\r\n\r\n" -> "hello"; what has come so far of it.
std::string Dechunk(const std::string& text) {
  std::string whole;
  for (size_t at = 0; at < text.size();) {
    const size_t line_end = text.find("\r\n", at);
    if (line_end == std::string::npos) break;
    const size_t size = std::strtoul(text.c_str() + at, nullptr, 16);
    if (size == 0) break;
    whole += text.substr(line_end + 2, size);
    at = line_end + 2 + size + 2;
  }
  return whole;
}

// Reads an answer off the front of `bytes`. False if more is needed (or it ends with the
// connection).
bool Parse(const std::string& bytes, bool no_body, HttpAnswer& answer) {
  size_t start = 0;
  size_t head_end = bytes.find("\r\n\r\n");
  // 100 Continue and its like come before the answer.
  while (head_end != std::string::npos && bytes.compare(start, 10, "HTTP/1.1 1") == 0) {
    start = head_end + 4;
    head_end = bytes.find("\r\n\r\n", start);
  }
  if (head_end == std::string::npos) return false;
  answer = {};
  std::istringstream head(bytes.substr(start, head_end + 2 - start));
  std::string line;
  std::getline(head, line);
  if (line.compare(0, 7, "HTTP/1.") != 0) {
    ADD_FAILURE() << "no HTTP answer: " << line;
    return true;
  }
  answer.status = std::atoi(line.c_str() + 9);
  while (std::getline(head, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(' ', colon + 1);
    const std::string name = LowerCase(line.substr(0, colon));
    EXPECT_TRUE(!answer.headers.contains(name)) << "twice: " << line;
    answer.headers[name] = line.substr(value, line.find_last_not_of('\r') - value + 1);
  }
  answer.body = bytes.substr(head_end + 4);
  if (no_body || answer.status == 202 || answer.status == 204) return true;
  if (const auto length = answer.headers.find("content-length"); length != answer.headers.end()) {
    const size_t size = std::strtoul(length->second.c_str(), nullptr, 10);
    if (answer.body.size() < size) return false;
    answer.body.resize(size);
    return true;
  }
  if (!answer.headers.contains("transfer-encoding")) return false;
  const bool whole = answer.body.ends_with("0\r\n\r\n");
  answer.body = Dechunk(answer.body);
  return whole;
}

}  // namespace

HttpAnswer Exchange(int port, const std::string& bytes, const ExchangeOptions& options) {
  const int fd = Connect(port);
  const auto end = Clock::now() + kPatience;
  std::string got;
  HttpAnswer answer;
  size_t sent = 0;
  bool sending = true;
  while (Clock::now() < end) {
    if (sending && sent == bytes.size()) {
      sending = false;
      if (options.half_close) shutdown(fd, SHUT_WR);
      if (options.close) break;
    }
    pollfd ready{fd, static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0};
    if (poll(&ready, 1, 100) < 0) break;
    if (ready.revents & (POLLIN | POLLHUP | POLLERR)) {
      char buffer[65536];
      const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
      if (n > 0) {
        got.append(buffer, static_cast<size_t>(n));
        if (Parse(got, options.no_body, answer) && !options.wait_for_end) break;
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        Parse(got, options.no_body, answer);
        close(fd);
        return answer;
      }
    }
    if (sending && (ready.revents & POLLOUT)) {
      const bool drips = options.drip_ms > 0 && sent >= options.drip_from;
      size_t size = bytes.size() - sent;
      if (options.drip_ms > 0 && !drips) size = options.drip_from - sent;
      if (drips) {
        std::this_thread::sleep_for(std::chrono::milliseconds(options.drip_ms));
        size = 1;
      }
      const ssize_t n = send(fd, bytes.data() + sent, size, MSG_NOSIGNAL);
      if (n > 0) {
        sent += static_cast<size_t>(n);
      } else if (errno != EAGAIN && errno != EINTR) {
        sending = false;  // it takes no more; an answer may have come all the same
      }
    }
  }
  answer.timed_out = Clock::now() >= end;
  close(fd);
  return answer;
}

}  // namespace mpnanny::hostile
