#include "server/command_line/command_words.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "server/command_line/twin_words.h"

namespace mpnanny {
namespace {

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// True where the word from `begin` to `end` is part of a path, a module or a call.
bool IsPartOfMore(std::string_view text, size_t begin, size_t end) {
  const auto at = [&](size_t place) { return place < text.size() ? text[place] : ' '; };
  const char before = begin == 0 ? ' ' : at(begin - 1);
  if (before == '/' || before == '\\' || before == '.' || before == '-') return true;
  const char after = at(end);
  if (after == '(' || after == '/' || after == '\\' || after == '=') return true;
  return (after == '.' || after == '-') && IsWordByte(at(end + 1));
}

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// What a tool does by an argument and the command line by a command of its own, and what only a
// server has to be allowed: who types a command may run code anyway.
std::string WithOwnCommands(std::string text) {
  text = Replaced(std::move(text), "search_knowledge with its id", "`mpnanny knowledge show ID`");
  text = Replaced(std::move(text), "search_knowledge with a case id",
                  "`mpnanny knowledge show ID`");
  text = Replaced(std::move(text), "choose_precision with run nanny_logs/metrics.db",
                  "`mpnanny precision --run nanny_logs/metrics.db`");
  return Replaced(std::move(text), "Needs --allow-exec; the code", "The code");
}

}  // namespace

std::string WithCommandNames(const std::string& given, const std::vector<Tool>& tools) {
  const std::string text = WithOwnCommands(given);
  std::map<std::string_view, const std::string*> commands;
  for (const Tool& tool : tools) {
    commands[tool.definition.name] = &tool.definition.command.name;
  }
  std::string said;
  said.reserve(text.size() + 64);
  for (size_t at = 0; at < text.size();) {
    if (!IsWordByte(text[at])) {
      said += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && IsWordByte(text[end])) ++end;
    const std::string_view word = std::string_view(text).substr(at, end - at);
    const auto command = commands.find(word);
    if (command == commands.end() || IsPartOfMore(text, at, end)) {
      said += word;
    } else {
      const bool quoted = at > 0 && text[at - 1] == '`';
      said += (quoted ? "mpnanny " : "`mpnanny ") + *command->second + (quoted ? "" : "`");
    }
    at = end;
  }
  return said;
}

Error WithCommandNames(Error error, const std::vector<Tool>& tools) {
  error.message = WithCommandNames(error.message, tools);
  error.hint = WithCommandNames(error.hint, tools);
  return error;
}

std::string WithOptionNames(std::string text, const ToolDefinition& definition) {
  const std::vector<std::string> bare = NamedBareProperties(definition.command);
  for (const auto& [property, schema] : Properties(definition).items()) {
    if (!IsOption(property, schema) && !Holds(bare, property)) continue;
    text = Replaced(std::move(text), "`" + property + "`",
                    Holds(bare, property) ? ValueName(property, schema)
                                          : OptionName(definition.command, property));
  }
  for (const auto& [option, unused] : definition.command.extra_options.items()) {
    text = Replaced(std::move(text), "`" + option + "`", OptionName(definition.command, option));
  }
  return text;
}

Error WithOptionNames(Error error, const ToolDefinition& definition) {
  error.message = WithOptionNames(std::move(error.message), definition);
  error.hint = WithOptionNames(std::move(error.hint), definition);
  return error;
}

}  // namespace mpnanny
