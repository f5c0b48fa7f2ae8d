// `mpnanny knowledge lint|new`: what people who write cases need. `knowledge search` is the twin of
// search_knowledge.
#include "server/command_line/commands.h"

namespace mpnanny {

void AddKnowledgeCommands(CommandSet& set) {
  CLI::App* const family = FindOrAddCommand(set.parser, "knowledge", "");
  family->description("Documented failure cases: search, check, begin a new one");
  family->group("Commands");
}

}  // namespace mpnanny
