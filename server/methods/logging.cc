// logging/setLevel, for legacy clients; a modern one says with each request what it wants to hear.
#include <optional>

#include "server/methods/methods.h"
#include "server/protocol/error_codes.h"
#include "server/protocol/log_level.h"

namespace mpnanny {

void AddLoggingMethods(MethodTable& methods) {
  methods["logging/setLevel"] = {
      .eras = Eras::kLegacy,
      .run = [](const Json& params, const RequestContext& context) -> Outcome {
        const auto given = params.find("level");
        std::optional<LogLevel> level;
        if (given != params.end() && given->is_string()) {
          level = LogLevelFromName(given->get_ref<const std::string&>());
        }
        if (!level) {
          return WireError{kInvalidParams, "params.level must be one of " + LogLevelNames() + "."};
        }
        context.connection->legacy.SetLogLevel(*level);
        return MethodResult{};
      },
  };
}

}  // namespace mpnanny
