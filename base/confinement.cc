#include "base/confinement.h"

#include <utility>

namespace mpnanny {

const std::vector<LackName>& LackNames() {
  static const std::vector<LackName> kNames = {
      {Lack::kWriting, "writing"}, {Lack::kSystemCalls, "system_calls"},
      {Lack::kNetwork, "network"}, {Lack::kProcesses, "processes"},
      {Lack::kDevices, "devices"}, {Lack::kMemory, "memory"},
  };
  return kNames;
}

const char* NameOf(Lack lack) {
  for (const LackName& each : LackNames()) {
    if (each.lack == lack) return each.name;
  }
  return "";
}

std::optional<Lack> LackOf(std::string_view name) {
  for (const LackName& each : LackNames()) {
    if (each.name == name) return each.lack;
  }
  return std::nullopt;
}

Json EndJson(const ConfinedEnd& end) {
  Json missing = Json::array();
  for (const Lack each : end.missing) missing.push_back(NameOf(each));
  return {{"exit_code", end.exit_code},
          {"exceeded", end.exceeded},
          {"missing", std::move(missing)},
          {"refused", end.refused}};
}

}  // namespace mpnanny
