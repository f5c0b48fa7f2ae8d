// `mpnanny knowledge show|lint|new`: a case for people who read one, and what those need who write
// them. `knowledge search` is the twin of search_knowledge.
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/cases/lint.h"
#include "engines/cases/page.h"
#include "server/command_line/command_words.h"
#include "server/command_line/commands.h"

namespace mpnanny {
namespace {

struct KnowledgeOptions {
  std::string id;
  std::string part;
  std::string data_dir;
  std::string format = "text";
};

constexpr int kExitProblems = 1;

Json ProblemsJson(const std::vector<cases::Problem>& problems) {
  Json list = Json::array();
  for (const cases::Problem& problem : problems) {
    list.push_back({{"file", problem.file},
                    {"severity", problem.note ? "info" : "error"},
                    {"message", problem.what}});
  }
  return {{"problems", std::move(list)}};
}

Result<int> Lint(const CommandLineContext& context, const KnowledgeOptions& options) {
  if (options.format != "text" && options.format != "json") {
    return InvalidInput("--format must be text or json, not '" + EscapeControl(options.format, 60) +
                        "'.");
  }
  MPN_TRY_ASSIGN(DataFiles data, DataFiles::Create(options.data_dir));
  const std::vector<cases::Problem> problems = cases::LintCases(data);
  const auto notes = std::count_if(problems.begin(), problems.end(),
                                   [](const cases::Problem& problem) { return problem.note; });
  const auto errors = static_cast<std::ptrdiff_t>(problems.size()) - notes;
  if (options.format == "json") {
    context.out << DumpJsonPretty(ProblemsJson(problems)) << "\n";
  } else {
    for (const cases::Problem& problem : problems) {
      context.out << problem.file << ": " << (problem.note ? "note: " : "") << problem.what << "\n";
    }
    const size_t cases_read = data.List("knowledge/cases/", ".md").size();
    context.out << cases_read << " cases, " << errors << " problems, " << notes << " notes\n";
  }
  return errors > 0 ? kExitProblems : 0;
}

Result<int> Show(const CommandLineContext& context, const KnowledgeOptions& options) {
  MPN_TRY_ASSIGN(DataFiles data, DataFiles::Create(options.data_dir));
  const auto library = cases::SharedLibrary(data);
  MPN_TRY_ASSIGN(const auto found, cases::FindCase(*library, options.id));
  MPN_TRY_ASSIGN(const std::string text, options.part.empty()
                                             ? cases::WholePage(*found, data)
                                             : cases::PagePart(*found, options.part, data));
  context.out << text;
  return 0;
}

Result<int> PrintTemplate(const CommandLineContext& context, const KnowledgeOptions& options) {
  MPN_TRY_ASSIGN(DataFiles data, DataFiles::Create(options.data_dir));
  MPN_TRY_ASSIGN(std::string text, cases::CaseTemplate(options.id, data));
  context.out << text;
  return 0;
}

}  // namespace

void AddKnowledgeCommands(CommandSet& set) {
  CLI::App* const family = FindOrAddCommand(set.parser, "knowledge", "");
  family->description("Documented failure cases: search, read, check, begin a new one");
  family->group("Commands");

  const auto options = std::make_shared<KnowledgeOptions>();
  const auto add = [&](const char* name, const char* description,
                       Result<int> (*run)(const CommandLineContext&, const KnowledgeOptions&)) {
    CLI::App& command = *family->add_subcommand(name, description);
    command.group("Commands");
    command
        .add_option("--data-dir", options->data_dir,
                    "Folder of your own rules and cases, laid out as in the repository")
        ->type_name("DIR");
    set.actions.emplace_back(&command, [&set, options, run, name] {
      const Result<int> done = run(set.context, *options);
      if (done) return *done;
      const bool json = options->format == "json";
      return PrintError(set.context, std::string("knowledge ") + name,
                        json ? done.error() : WithCommandNames(done.error(), set.tools), json);
    });
    return &command;
  };
  CLI::App* const show = add(
      "show",
      "Print a case\n\nMechanism, how to confirm, fix, code, links and the program that shows it.",
      Show);
  show->add_option("ID", options->id, "The case's id, as knowledge search prints it")
      ->required()
      ->type_name("");
  show->add_option("--part", options->part, "Only this part: " + Join(cases::PartNames(), ", "))
      ->type_name("PART");
  add("lint",
      "Say everything that is wrong with the cases\n\nExits 1 if a case has a problem; notes are "
      "no problem.",
      Lint)
      ->add_option("--format", options->format, "How the answer is printed (default: text)")
      ->type_name("text|json");
  add("new", "Print the template of a new case\n\nSave it as knowledge/cases/ID.md and fill it in.",
      PrintTemplate)
      ->add_option("ID", options->id, "The case's id: kebab-case, named for the bad pattern")
      ->required()
      ->type_name("");
}

}  // namespace mpnanny
