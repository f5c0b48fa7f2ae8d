// `mpnanny rules [ID]`: the static rules as their resource family tells them.
#include <algorithm>
#include <memory>
#include <ostream>

#include "base/text.h"
#include "server/command_line/commands.h"

namespace mpnanny {
namespace {

struct RulesOptions {
  std::string id;
  std::string data_dir;
  std::string format = "text";
};

Result<void> PrintRules(const CommandSet& set, const RulesOptions& options) {
  if (options.format != "text" && options.format != "json") {
    return InvalidInput("--format must be text or json, not '" + EscapeControl(options.format, 60) +
                        "'.");
  }
  const std::vector<ResourceTemplate> families = set.context.resource_templates();
  const auto family =
      std::find_if(families.begin(), families.end(), [](const ResourceTemplate& candidate) {
        return candidate.uri_template == "mpnanny://rules/{rule}";
      });
  if (family == families.end()) return Unavailable("This build has no static rules.");
  MPN_TRY_ASSIGN(DataFiles data, DataFiles::Create(options.data_dir));
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  const ToolContext context{.roots = roots, .data = data, .cancel = {}, .progress = nullptr};
  std::ostream& out = set.context.out;
  if (!options.id.empty()) {
    MPN_TRY_ASSIGN(std::string page, family->read(options.id, context));
    if (options.format == "json") {
      out << DumpJsonPretty({{"rule", options.id}, {"page", page}}) << "\n";
    } else {
      out << page << (page.ends_with("\n") ? "" : "\n");
    }
    return {};
  }
  Json rules = Json::array();
  size_t width = 0;
  const std::vector<ResourceTemplate::Entry> entries = family->list(context);
  for (const ResourceTemplate::Entry& entry : entries) {
    width = std::max(width, entry.value.size());
    rules.push_back(
        {{"rule", entry.value}, {"title", entry.title}, {"description", entry.description}});
  }
  if (options.format == "json") {
    out << DumpJsonPretty({{"rules", rules}}) << "\n";
    return {};
  }
  for (const ResourceTemplate::Entry& entry : entries) {
    out << entry.value << std::string(width + 2 - entry.value.size(), ' ') << entry.description
        << "\n";
  }
  out << entries.size() << " rules. `mpnanny rules ID` prints one with its examples.\n";
  return {};
}

}  // namespace

void AddRulesCommand(CommandSet& set) {
  const auto options = std::make_shared<RulesOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "rules", "List the static rules, or print the page of one\n\n`mpnanny check` applies them.");
  command
      .add_option("ID", options->id,
                  "Id of the rule whose page is printed; without it all are listed")
      ->type_name("");
  command.add_option("--format", options->format, "How the answer is printed (default: text)")
      ->type_name("text|json");
  command
      .add_option("--data-dir", options->data_dir,
                  "Folder of your own rules and cases, laid out as in the repository")
      ->type_name("DIR");
  command.group("Commands");
  set.actions.emplace_back(&command, [&set, options] {
    const Result<void> printed = PrintRules(set, *options);
    return printed ? 0
                   : PrintError(set.context, "rules", printed.error(), options->format == "json");
  });
}

}  // namespace mpnanny
