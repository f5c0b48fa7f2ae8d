#include "server/command_line/command_tree.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// "a|b" and the parser's own "TEXT:{a,b}" are lists; "FILE" and "STEPS:POSITIVE" are none.
std::vector<std::string> ListedIn(const std::string& type) {
  if (const size_t open = type.find(":{"); open != std::string::npos && type.ends_with("}")) {
    return Split(type.substr(open + 2, type.size() - open - 3), ',');
  }
  return type.find('|') == std::string::npos ? std::vector<std::string>() : Split(type, '|');
}

CommandOption OptionOf(const CommandSet& set, const CLI::Option& option) {
  CommandOption out;
  out.bare = option.get_positional();
  if (out.bare) {
    out.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  }
  const std::string type = option.get_type_name();
  const auto choices = set.choices.find(&option);
  out.values = choices == set.choices.end() ? ListedIn(type) : choices->second;
  using Value = CommandOption::Value;
  if (option.get_items_expected_max() > 0) {
    out.value = option.get_items_expected_min() > 0 || out.bare ? Value::kNeeded : Value::kOptional;
    // "STEPS:POSITIVE": what follows the colon is the parser's check.
    out.value_name = type.find(":{") == std::string::npos ? type.substr(0, type.find(':'))
                                                          : Join(out.values, "|");
  }
  out.folder = out.value_name == "DIR";
  out.repeated = option.get_items_expected_max() > 1;
  out.required = option.get_required();
  out.help = option.get_description();
  return out;
}

CommandNode NodeOf(const CommandSet& set, const CLI::App& app, const std::string& words) {
  CommandNode node;
  node.words = words;
  const std::string description = app.get_description();
  const size_t line = std::min(description.find('\n'), description.size());
  node.title = description.substr(0, line);
  node.about =
      description.substr(std::min(description.find_first_not_of('\n', line), description.size()));
  for (const CLI::Option* option : app.get_options())
    node.options.push_back(OptionOf(set, *option));
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    node.children.push_back(
        NodeOf(set, *child, words + (words.empty() ? "" : " ") + child->get_name()));
  }
  return node;
}

}  // namespace

CommandNode TreeOf(const CommandSet& set) { return NodeOf(set, set.parser, ""); }

std::vector<const CommandNode*> AllNodes(const CommandNode& node) {
  std::vector<const CommandNode*> all = {&node};
  for (const CommandNode& child : node.children) {
    const std::vector<const CommandNode*> below = AllNodes(child);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace mpnanny
