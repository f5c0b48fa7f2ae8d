// `mpnanny completion SHELL` and `mpnanny man`: what is made from the parser itself.
#include <memory>
#include <ostream>

#include "base/text.h"
#include "server/command_line/command_tree.h"
#include "server/command_line/commands.h"
#include "server/command_line/manual.h"
#include "server/command_line/shell_scripts.h"

namespace mpnanny {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const CommandNode& root);
};
constexpr Shell kShells[] = {{"bash", BashScript}, {"zsh", ZshScript}, {"fish", FishScript}};

}  // namespace

void AddShellCommands(CommandSet& set) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& completion = *set.parser.add_subcommand(
      "completion",
      "Print a script that completes commands and options in a shell\n\n"
      "  source <(mpnanny completion bash)        now, in bash\n"
      "  source <(mpnanny completion zsh)         now, in zsh, after compinit\n"
      "  mpnanny completion fish | source         now, in fish\n\n"
      "The script's first lines say where to put it so that it is always there.");
  completion.group("About mpnanny");
  CLI::Option* const option =
      completion.add_option("SHELL", *shell, "bash, zsh or fish")->type_name("");
  for (const Shell& one : kShells) set.choices[option].push_back(one.name);
  set.actions.emplace_back(&completion, [&set, shell, option] {
    for (const Shell& one : kShells) {
      if (*shell != one.name) continue;
      set.context.out << one.script(TreeOf(set));
      return 0;
    }
    return PrintError(set.context, "completion",
                      shell->empty()
                          ? InvalidInput("For which shell?", "It takes bash, zsh or fish.")
                          : NoSuchName("shell", *shell, set.choices[option]),
                      false);
  });
  CLI::App& man = *set.parser.add_subcommand("man",
                                             "Print the manual page\n\n"
                                             "  mpnanny man | man -l -                   read it\n"
                                             "  mpnanny man > ~/.local/share/man/man1/mpnanny.1");
  man.group("About mpnanny");
  set.actions.emplace_back(&man, [&set] {
    set.context.out << ManualPage(TreeOf(set));
    return 0;
  });
}

}  // namespace mpnanny
