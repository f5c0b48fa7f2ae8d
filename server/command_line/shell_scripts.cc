#include "server/command_line/shell_scripts.h"

#include "base/text.h"

namespace mpnanny {
namespace {

using Value = CommandOption::Value;

// "analyze", "knowledge search" … as patterns of a shell's case.
std::string CommandPatterns(const CommandNode& root, const std::string& separator) {
  std::vector<std::string> patterns;
  for (const CommandNode* node : AllNodes(root)) {
    if (node->words.empty()) continue;
    // What stands there is the command so far, a space, and the next word.
    const bool outer = node->words.find(' ') == std::string::npos;
    patterns.push_back((outer ? "' " : "'") + node->words + "'");
  }
  return Join(patterns, separator);
}

std::vector<std::string> ChildNames(const CommandNode& node) {
  std::vector<std::string> names;
  for (const CommandNode& child : node.children) {
    names.push_back(child.words.substr(child.words.rfind(' ') + 1));
  }
  return names;
}

// What bare words of the command may be, if that is a list.
std::vector<std::string> BareValues(const CommandNode& node) {
  for (const CommandOption& option : node.options) {
    if (option.bare) return option.values;
  }
  return {};
}

std::vector<std::string> OptionNames(const CommandNode& node) {
  std::vector<std::string> names;
  for (const CommandOption& option : node.options) {
    if (!option.bare) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// The first sentence.
std::string OneLine(const std::string& help) {
  std::string line = help.substr(0, help.find('\n'));
  line = line.substr(0, line.find(". "));
  if (line.ends_with(".") && !line.ends_with("..")) line.pop_back();
  return line;
}

// The options of a command that need a value, as patterns of "COMMAND OPTION"; `body` says what is
// done with each.
template <typename Body>
std::string ValueCases(const CommandNode& root, const std::string& separator, const char* indent,
                       const char* open, const Body& body) {
  std::string out;
  for (const CommandNode* node : AllNodes(root)) {
    for (const CommandOption& option : node->options) {
      if (option.bare || option.value != Value::kNeeded) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back("'" + node->words + " " + name + "'");
      out += indent + std::string(open) + Join(patterns, separator) + ") " + body(option) + " ;;\n";
    }
  }
  return out;
}

}  // namespace

std::string BashScript(const CommandNode& root) {
  std::string out =
      "# Completion of mpnanny for bash. Now: source <(mpnanny completion bash)\n"
      "# Always: mpnanny completion bash > ~/.local/share/bash-completion/completions/mpnanny\n"
      "_mpnanny() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command='' words='' options='' values='' i word\n"
      "  COMPREPLY=()\n"
      "  # bash makes three words of --format=json.\n"
      "  if [[ $cur == '=' ]]; then cur=''\n"
      "  elif [[ $prev == '=' ]] && (( COMP_CWORD > 2 )); then prev=${COMP_WORDS[COMP_CWORD-2]}; "
      "fi\n"
      "  for (( i = 1; i < COMP_CWORD; i++ )); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    [[ $word == -- ]] && return  # a command of its own follows\n"
      "    case \"$command $word\" in\n"
      "      " +
      CommandPatterns(root, "|") +
      ")\n        command=\"${command:+$command }$word\" ;;\n    esac\n  done\n"
      "  case \"$command $prev\" in\n";
  out += ValueCases(root, "|", "    ", "", [](const CommandOption& option) -> std::string {
    if (!option.values.empty()) return "values='" + Join(option.values, " ") + "'";
    return option.folder ? "compopt -o dirnames +o default 2>/dev/null; return" : "return";
  });
  out +=
      "  esac\n"
      "  if [[ -n $values ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n    return\n  fi\n"
      "  case $command in\n";
  for (const CommandNode* node : AllNodes(root)) {
    std::vector<std::string> words = ChildNames(*node);
    const std::vector<std::string> bare = BareValues(*node);
    words.insert(words.end(), bare.begin(), bare.end());
    out += "    '" + node->words + "') words='" + Join(words, " ") + "' options='" +
           Join(OptionNames(*node), " ") + "' ;;\n";
  }
  out +=
      "  esac\n"
      "  if [[ $cur == -* ]]; then words=$options; fi\n"
      "  [[ -n $words ]] && compopt +o default +o bashdefault 2>/dev/null\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))  # none: bash names files\n"
      "}\n"
      "complete -o bashdefault -o default -F _mpnanny mpnanny\n";
  return out;
}

std::string ZshScript(const CommandNode& root) {
  const auto described = [](const std::string& word, const std::string& help) {
    std::string escaped;
    for (const char c : OneLine(help)) escaped += c == '\'' ? "'\\''" : std::string(1, c);
    return "'" + word + ":" + escaped + "'";
  };
  std::string out =
      "#compdef mpnanny\n"
      "# Completion of mpnanny for zsh. Now: source <(mpnanny completion zsh)\n"
      "# Always: write it to a file _mpnanny in a folder of $fpath.\n"
      "_mpnanny() {\n"
      "  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} command='' word i\n"
      "  local -a values names options\n"
      "  if [[ $cur == --*=* ]]; then prev=${cur%%=*}; cur=${cur#*=}; compset -P '*='; fi\n"
      "  for (( i = 2; i < CURRENT; i++ )); do\n"
      "    word=${words[i]}\n"
      "    if [[ $word == -- ]]; then _files; return; fi\n"
      "    case \"$command $word\" in\n"
      "      (" +
      CommandPatterns(root, "|") +
      ") command=\"${command:+$command }$word\" ;;\n    esac\n  done\n"
      "  case \"$command $prev\" in\n";
  out += ValueCases(root, "|", "    ", "(", [](const CommandOption& option) -> std::string {
    if (!option.values.empty()) return "values=(" + Join(option.values, " ") + ")";
    return option.folder ? "_files -/; return" : "_files; return";
  });
  out +=
      "  esac\n"
      "  if (( ${#values} )); then compadd -- $values; return; fi\n"
      "  case $command in\n";
  for (const CommandNode* node : AllNodes(root)) {
    std::vector<std::string> names = BareValues(*node);
    for (const CommandNode& child : node->children) {
      names.push_back(described(child.words.substr(child.words.rfind(' ') + 1), child.title));
    }
    std::vector<std::string> options;
    for (const CommandOption& option : node->options) {
      for (const std::string& name : option.names) {
        if (!option.bare) options.push_back(described(name, option.help));
      }
    }
    out += "    ('" + node->words + "')\n      names=(" + Join(names, " ") + ")\n      options=(" +
           Join(options, "\n        ") + ") ;;\n";
  }
  out +=
      "  esac\n"
      "  if [[ $cur == -* ]]; then _describe option options\n"
      "  elif (( ${#names} )); then _describe word names\n"
      "  else _files; fi\n"
      "}\n"
      "if [[ $funcstack[1] == _mpnanny ]]; then _mpnanny \"$@\"\n"
      "elif (( $+functions[compdef] )); then compdef _mpnanny mpnanny; fi\n";
  return out;
}

std::string FishScript(const CommandNode& root) {
  const auto quoted = [](const std::string& text) {
    std::string out;
    for (const char c : text)
      out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return "'" + out + "'";
  };
  std::string out =
      "# Completion of mpnanny for fish. Now: mpnanny completion fish | source\n"
      "# Always: mpnanny completion fish > ~/.config/fish/completions/mpnanny.fish\n"
      "function __mpnanny_command\n"
      "  set -l command ''\n"
      "  set -l words (commandline -opc)\n"
      "  for word in $words[2..-1]\n"
      "    test \"$word\" = --; and set command --; and break\n"
      "    switch \"$command $word\"\n"
      "      case " +
      CommandPatterns(root, " ") +
      "\n        set command (string trim -- \"$command $word\")\n    end\n  end\n"
      "  echo $command\nend\n"
      "function __mpnanny_at\n  test (__mpnanny_command) = \"$argv[1]\"\nend\n"
      "complete -c mpnanny -e\n";
  for (const CommandNode* node : AllNodes(root)) {
    const std::string at = "complete -c mpnanny -n '__mpnanny_at \"" + node->words + "\"' ";
    for (const CommandNode& child : node->children) {
      out += at + "-f -a " + child.words.substr(child.words.rfind(' ') + 1) + " -d " +
             quoted(child.title) + "\n";
    }
    if (const auto bare = BareValues(*node); !bare.empty()) {
      out += at + "-f -a " + quoted(Join(bare, " ")) + "\n";
    }
    for (const CommandOption& option : node->options) {
      if (option.bare) continue;
      out += at;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? "-l " + name.substr(2) + " " : "-s " + name.substr(1) + " ";
      }
      if (!option.values.empty()) {
        out += "-x -a " + quoted(Join(option.values, " ")) + " ";
      } else if (option.value == Value::kNeeded) {
        out += option.folder ? "-x -a '(__fish_complete_directories)' " : "-r ";
      }
      out += "-d " + quoted(OneLine(option.help)) + "\n";
    }
  }
  return out;
}

}  // namespace mpnanny
