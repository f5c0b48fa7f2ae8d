#include "server/doctor/conversation.h"

#include <chrono>
#include <utility>

#include "base/text.h"
#include "base/version.h"
#include "server/protocol/versions.h"

namespace mpnanny {
namespace {

constexpr size_t kMostShown = 300;  // bytes of an answer that are shown

Json ClientInfo() { return {{"name", "mpnanny-doctor"}, {"version", std::string(kVersion)}}; }

Json Request(int id, const char* method, Json params) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

std::string Text(const Json& json) { return json.is_string() ? json.get<std::string>() : ""; }

void Wrong(Checks& checks, const std::string& name, const std::string& what, const Json& answer) {
  checks.push_back({CheckStatus::kFailed, name,
                    what + ": " + EscapeControl(DumpJson(answer), kMostShown),
                    "Is it mpnanny that answers there, and not too old a one?"});
}

bool Initialize(const Wire& wire, Checks& checks) {
  const std::string asked(RevisionName(kNewestLegacy));
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = wire.ask(Request(1, "initialize",
                                       {{"protocolVersion", asked},
                                        {"capabilities", Json::object()},
                                        {"clientInfo", ClientInfo()}}));
  if (!answer) return false;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  const std::string version = Text(ValueAt(*answer, {"result", "protocolVersion"}));
  const std::string name = Text(ValueAt(*answer, {"result", "serverInfo", "name"}));
  if (version.empty() || name.empty() ||
      !ValueAt(*answer, {"result", "capabilities"}).is_object()) {
    Wrong(checks, "initialize", "The answer to initialize is not what the protocol says", *answer);
    return false;
  }
  const std::string of = Text(ValueAt(*answer, {"result", "serverInfo", "version"}));
  checks.push_back({CheckStatus::kOk, "initialize",
                    EscapeControl(name, 100) + " " + EscapeControl(of, 40) + " answered in " +
                        std::to_string(took.count()) + " ms, protocol " +
                        EscapeControl(version, 40) + ".",
                    ""});
  if (name != "mpnanny") {
    checks.push_back({CheckStatus::kWarning, "initialize",
                      "The server calls itself '" + EscapeControl(name, 100) + "', not mpnanny.",
                      "Does the path or the port belong to another server?"});
  } else if (of != kVersion) {
    checks.push_back(
        {CheckStatus::kWarning, "version",
         "The server is mpnanny " + EscapeControl(of, 40) + ", this is " + kVersion + ".",
         "Build the older one anew."});
  }
  wire.tell({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  return true;
}

bool ListTools(const Wire& wire, Checks& checks) {
  const auto answer = wire.ask(Request(2, "tools/list", Json::object()));
  if (!answer) return false;
  const Json& tools = ValueAt(*answer, {"result", "tools"});
  if (!tools.is_array() || tools.empty()) {
    Wrong(checks, "tools", "The answer to tools/list holds no tools", *answer);
    return false;
  }
  checks.push_back({CheckStatus::kOk, "tools", std::to_string(tools.size()) + " tools.", ""});
  return true;
}

bool Discover(const Wire& wire, Checks& checks) {
  const std::string newest(RevisionName(Revision::k2026_07_28));
  const auto answer = wire.ask(Request(3, "server/discover",
                                       {{"_meta",
                                         {{kMetaVersionKey, newest},
                                          {kMetaCapabilitiesKey, Json::object()},
                                          {kMetaClientInfoKey, ClientInfo()}}}}));
  if (!answer) return false;
  for (const Json& version : ValueAt(*answer, {"result", "supportedVersions"})) {
    if (version != newest) continue;
    checks.push_back({CheckStatus::kOk, "discover", "Speaks " + newest + " as well.", ""});
    return true;
  }
  Wrong(checks, "discover", "The answer to server/discover does not name " + newest, *answer);
  return false;
}

}  // namespace

bool Converse(const Wire& wire, Checks& checks) {
  return Initialize(wire, checks) && ListTools(wire, checks) && Discover(wire, checks);
}

}  // namespace mpnanny
