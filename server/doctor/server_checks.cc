#include "server/doctor/server_checks.h"

#include <memory>

#include "base/child_process.h"
#include "base/text.h"
#include "server/doctor/conversation.h"

namespace mpnanny {
namespace {

using Clock = ChildProcess::Clock;
using Status = ChildProcess::ReadStatus;

constexpr std::chrono::seconds kEndWithin{5};
constexpr size_t kMostNoise = 3;         // lines that are shown
constexpr size_t kMostNoiseBytes = 500;  // of each

std::string Seconds(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

// What a program wrote to stdout that is no message: the first lines, and how many there were.
struct NoiseLines {
  std::vector<std::string> first;
  size_t count = 0;

  void Add(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    ++count;
    if (first.size() < kMostNoise) first.emplace_back(line.substr(0, kMostNoiseBytes));
  }
};

// One server, spoken to over its stdin and stdout. Lines that are no messages are kept.
class Talk {
 public:
  Talk(ChildProcess& child, const ServerLaunch& launch, Checks& checks)
      : child_(child), launch_(launch), checks_(checks) {}

  std::optional<Json> Ask(const Json& request) {
    const auto until = Clock::now() + launch_.answer_within;
    // Not taken: it has ended, or is about to; reading tells which.
    child_.WriteLine(DumpJson(request), until);
    while (true) {
      ChildProcess::Line line = child_.ReadLine(until);
      if (line.status == Status::kLine) {
        if (auto answer = Answer(line.text, request["id"])) return answer;
        if (Clock::now() < until) continue;
        line = {Status::kTimeout, ""};  // a program that never pauses has had its time, too
      }
      noise_.Add(line.text);
      if (line.status == Status::kEnd) {
        if (const auto code = child_.Wait(Clock::now() + kEndWithin)) {
          checks_.push_back(ExplainEnd(launch_, *code, child_.errors()));
          return std::nullopt;
        }
      }
      checks_.push_back(NoAnswer(request, line.status));
      return std::nullopt;
    }
  }

  void Tell(const Json& notification) {
    child_.WriteLine(DumpJson(notification), Clock::now() + launch_.answer_within);
  }

  const NoiseLines& noise() const { return noise_; }

 private:
  static bool IsMessage(const Result<Json>& json) {
    return json && json->is_object() && json->value("jsonrpc", Json()) == "2.0";
  }

  // The message on the line if it answers `id`; what is no message at all is noise.
  std::optional<Json> Answer(std::string_view line, const Json& id) {
    auto message = ParseJson(line);
    if (!IsMessage(message)) {
      // A greeting without a newline stands in front of the first message.
      const size_t begin = line.find("{\"jsonrpc\"");
      noise_.Add(line.substr(0, begin));
      if (begin == std::string_view::npos) return std::nullopt;
      message = ParseJson(line.substr(begin));
      if (!IsMessage(message)) return std::nullopt;
    }
    if (message->contains("method") || message->value("id", Json()) != id) return std::nullopt;
    return *std::move(message);
  }

  Check NoAnswer(const Json& request, Status status) const {
    const std::string method = request["method"];
    if (status == Status::kEnd) {
      return {CheckStatus::kFailed, "connection",
              "The program closed its stdout without an answer to " + method + ", but runs on.",
              ""};
    }
    if (status == Status::kTooLong) {
      return {CheckStatus::kFailed, "connection",
              "A line without an end came instead of an answer to " + method + ".",
              "Is it mpnanny that is started?"};
    }
    Check check{CheckStatus::kFailed, "connection",
                "No answer to " + method + " within " + Seconds(launch_.answer_within) + ".",
                launch_.ssh_host.empty()
                    ? "Start `" + ShellCommand(launch_.words) + "` by hand: what does it say?"
                    : "Does `" + ShellCommand({"ssh", "-T", launch_.ssh_host, "true"}) +
                          "` end soon? A login shell that asks or waits keeps it from that."};
    const std::string said = EscapeControl(child_.errors(), 300);
    if (!said.empty()) check.message += " stderr: " + said;
    return check;
  }

  ChildProcess& child_;
  const ServerLaunch& launch_;
  Checks& checks_;
  NoiseLines noise_;
};

Check Noise(const ServerLaunch& launch, const NoiseLines& lines) {
  std::string shown;
  for (const std::string& line : lines.first) {
    shown += (shown.empty() ? "'" : ", '") + EscapeControl(line, 160) + "'";
  }
  if (lines.count > lines.first.size())
    shown += ", and " + std::to_string(lines.count - lines.first.size()) + " more";
  if (launch.ssh_host.empty()) {
    return {CheckStatus::kFailed, "stdout", "stdout carries what is no message: " + shown + ".",
            "Whatever starts the server must print to stderr."};
  }
  return {CheckStatus::kFailed, "login shell",
          "On " + launch.ssh_host +
              " something prints to stdout before the server does, and "
              "clients take it for a message: " +
              shown + ".",
          "Find it in ~/.bashrc, ~/.profile or ~/.zshenv over there (echo, conda, module, motd), "
          "and let it print only if a person is there: [ -t 1 ] && …"};
}

}  // namespace

Checks CheckServer(const ServerLaunch& launch) {
  Checks checks;
  const auto child = ChildProcess::Start(launch.words);
  if (!child) {
    const bool ssh = !launch.ssh_host.empty();
    checks.push_back({CheckStatus::kFailed, "start", "Cannot start " + child.error().Text(),
                      ssh ? "Install the OpenSSH client." : "Is the file there and executable?"});
    return checks;
  }
  Talk talk(**child, launch, checks);
  const Wire wire{[&](const Json& request) { return talk.Ask(request); },
                  [&](const Json& notification) { talk.Tell(notification); }};
  const bool well = Converse(wire, checks);
  if (talk.noise().count > 0) {
    // The cause comes before what follows from it.
    checks.insert(checks.begin(), Noise(launch, talk.noise()));
  }
  if (!well) return checks;
  (*child)->CloseInput();
  const auto code = (*child)->Wait(Clock::now() + kEndWithin);
  if (code == 0) {
    checks.push_back({CheckStatus::kOk, "end", "Ended with its input.", ""});
  } else {
    checks.push_back({CheckStatus::kWarning, "end",
                      code ? "Ended with exit code " + std::to_string(*code) + "."
                           : "Still runs " + Seconds(kEndWithin) + " after its input ended.",
                      "Clients leave such servers behind."});
  }
  return checks;
}

}  // namespace mpnanny
