#include "tools/static_check/shared_rules.h"

#include <map>
#include <mutex>
#include <string>

namespace mpnanny::static_check {

Result<std::shared_ptr<const RuleSet>> SharedRules(const DataFiles& data) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const RuleSet>> cache;
  // By what the rules say, not by the address of `data`: another one may come to lie at the same
  // place.
  std::string key;
  for (const char* suffix : {".md", ".scm"}) {
    for (const std::string& path : data.List("tools/static_check/rules/", suffix)) {
      const std::string_view text = *data.Read(path);
      key += path + " " + std::to_string(std::hash<std::string_view>()(text)) + "\n";
    }
  }
  const std::lock_guard lock(mutex);
  if (const auto it = cache.find(key); it != cache.end()) return it->second;
  auto loaded = RuleSet::Load(data);
  if (loaded) cache.emplace(std::move(key), *loaded);
  return loaded;
}

}  // namespace mpnanny::static_check
