// Every page that is data (rules, cases, prompts, alerts) has all its parts, and what it names
// exists.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/data_files.h"
#include "base/front_matter.h"
#include "base/run_words.h"
#include "base/text.h"
#include "engines/cases/case.h"
#include "engines/cases/vocabulary.h"
#include "tests/checks/tree.h"
#include "tools/tool.h"

namespace mpnanny::checks {
namespace {

struct Page {
  std::string path;
  std::string id;  // the file's name without its ending
  FrontMatter front;
};

// The pages of a folder, READMEs left out.
std::vector<Page> Pages(const std::string& folder) {
  std::vector<Page> pages;
  for (const SourceFile& file : Tree()) {
    if (!file.path.starts_with(folder) || !file.path.ends_with(".md") ||
        file.path.ends_with("README.md"))
      continue;
    if (file.path.find('/', folder.size()) != std::string::npos) continue;
    Result<FrontMatter> front = ParseFrontMatter(file.text, file.path);
    EXPECT_TRUE(front) << (front ? "" : front.error().Text());
    if (!front) continue;
    pages.push_back(
        {file.path, file.path.substr(folder.size(), file.path.size() - folder.size() - 3), *front});
  }
  return pages;
}

bool IsKebab(const std::string& id) {
  return !id.empty() && id.front() != '-' && id.back() != '-' &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

// Every id after `prefix` in the text: "mpnanny://knowledge/<id>".
std::vector<std::string> Linked(const std::string& text, const std::string& prefix) {
  std::vector<std::string> ids;
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    size_t end = at + prefix.size();
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) ||
                                 text[end] == '-' || text[end] == '_'))
      ++end;
    if (end > at + prefix.size())
      ids.push_back(text.substr(at + prefix.size(), end - at - prefix.size()));
  }
  return ids;
}

class PagesTest : public ::testing::Test {
 protected:
  // The cases that a page links to exist.
  void ExpectCases(const Page& page) const {
    const Json named = page.front.fields.value("cases", Json());
    EXPECT_TRUE(named.is_array()) << page.path << " does not say which cases explain it";
    if (!named.is_array()) return;
    EXPECT_FALSE(named.empty()) << page.path << " links to no case";
    for (const Json& id : named) {
      EXPECT_TRUE(library_.Find(id.get<std::string>()))
          << page.path << " links to the case " << id << ", which is not there";
    }
  }

  DataFiles data_ = *DataFiles::Create();
  cases::CaseLibrary library_ = cases::CaseLibrary::Load(data_);
};

TEST_F(PagesTest, CasesAreWholeAndTheirRelativesExist) {
  EXPECT_GE(library_.all().size(), 20u);
  for (const std::string& problem : library_.problems()) ADD_FAILURE() << problem;
  for (const cases::Case& item : library_.all()) {
    EXPECT_TRUE(IsKebab(item.id)) << item.id;
    EXPECT_TRUE(FindFile(std::string(cases::kCaseFolder) + item.id + ".md")) << item.id;
    for (const std::string& id : item.related)
      EXPECT_TRUE(library_.Find(id)) << item.id << " is related to " << id;
    EXPECT_FALSE(item.fix.empty()) << item.id;
  }
}

TEST_F(PagesTest, RulesHaveAPageACheckAndCases) {
  const std::string folder = "engines/check/rules/";
  const std::vector<Page> pages = Pages(folder);
  EXPECT_GE(pages.size(), 8u);
  std::set<std::string> ids;
  for (const Page& page : pages) {
    SCOPED_TRACE(page.path);
    ids.insert(page.id);
    EXPECT_TRUE(IsKebab(page.id));
    EXPECT_EQ(page.front.fields.value("id", ""), page.id);
    const std::string severity = page.front.fields.value("severity", "");
    EXPECT_TRUE(severity == "error" || severity == "warning" || severity == "candidate")
        << severity;
    EXPECT_EQ(severity != "candidate",
              FindFile(folder + page.id + ".cc") || FindFile(folder + page.id + ".config.cc"))
        << "an error or a warning has a check, a candidate has none";
    // In a comment of Python, YAML or a shell; of JSON.
    const std::string mark = " " + severity + ": [" + page.id + "]";
    EXPECT_TRUE(page.front.body.find("#" + mark) != std::string::npos ||
                page.front.body.find("//" + mark) != std::string::npos)
        << "no example that fires";
    ExpectCases(page);
  }
  for (const SourceFile& file : Tree()) {
    if (!file.path.starts_with(folder) || !file.path.ends_with(".cc")) continue;
    const size_t end = file.path.find('.', folder.size());
    EXPECT_TRUE(ids.contains(file.path.substr(folder.size(), end - folder.size())))
        << file.path << " has no page";
  }
}

// What a case's page says of static_check can be looked up from the rule as well.
TEST_F(PagesTest, RulesLinkBackToTheCasesThatPromiseThem) {
  std::map<std::string, std::set<std::string>> cases_of;
  for (const Page& page : Pages("engines/check/rules/")) {
    for (const Json& id : page.front.fields.value("cases", Json::array())) {
      cases_of[page.id].insert(id.get<std::string>());
    }
  }
  for (const cases::Case& item : library_.all()) {
    const bool promised = std::find(item.detectable_by.begin(), item.detectable_by.end(),
                                    "static") != item.detectable_by.end();
    const bool kept =
        std::any_of(item.signals.begin(), item.signals.end(), [&](const cases::Signal& signal) {
          return signal.kind == cases::Signal::Kind::kRule &&
                 cases_of[signal.name].contains(item.id);
        });
    EXPECT_TRUE(!promised || kept) << item.id << ": no rule that it names links to it";
  }
}

TEST_F(PagesTest, AlertsHaveAPageATypeAndCases) {
  std::set<std::string> types;
  for (const Page& page : Pages("monitor/alerts/")) {
    SCOPED_TRACE(page.path);
    types.insert(page.id);
    EXPECT_TRUE(FindNamed<AlertType>(page.id)) << "no alert has this type";
    ExpectCases(page);
  }
  // What the monitor raises can be looked up, and cases can name it.
  for (const char* type : Vocabulary<AlertType>::kNames) {
    EXPECT_TRUE(types.contains(type)) << type << " has no page";
    EXPECT_TRUE(cases::IsWord(cases::kAlertTypes, type)) << type << " has no meaning";
  }
}

TEST_F(PagesTest, PromptsNameToolsAndPagesThatExist) {
  std::set<std::string> tools;
  std::string fields;  // what answers and arguments are called
  for (const Tool& tool : AllTools()) {
    tools.insert(tool.definition.name);
    fields += DumpJson(tool.definition.input_schema) + DumpJson(tool.definition.output_schema);
  }
  const std::vector<Page> pages = Pages("prompts/");
  EXPECT_GE(pages.size(), 2u);
  for (const Page& page : pages) {
    SCOPED_TRACE(page.path);
    EXPECT_FALSE(page.front.fields.value("title", "").empty());
    if (!page.id.ends_with(".zh")) {  // the Chinese text of another page
      EXPECT_EQ(page.front.fields.value("name", ""), page.id);
      EXPECT_FALSE(page.front.fields.value("description", "").empty());
    }
    int named = 0;
    // A word in backquotes with an underscore is a tool, as prompts write them.
    const std::string& body = page.front.body;
    for (size_t at = body.find('`'); at != std::string::npos;) {
      const size_t end = body.find('`', at + 1);
      if (end == std::string::npos) break;
      const std::string word = body.substr(at + 1, end - at - 1);
      if (word.find('_') != std::string::npos &&
          word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos &&
          !word.ends_with("_")) {
        const bool tool = tools.contains(word);
        EXPECT_TRUE(tool || fields.find("\"" + word + "\"") != std::string::npos)
            << word << " is no tool and no field of one";
        named += tool ? 1 : 0;
      }
      at = body.find('`', end + 1);
    }
    EXPECT_GT(named, 0) << "a prompt that uses no tool";
  }
}

TEST_F(PagesTest, LinksBetweenPagesLead) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".md")) continue;
    for (const std::string& id : Linked(file.text, "mpnanny://knowledge/")) {
      EXPECT_TRUE(library_.Find(id)) << file.path << " links to the case " << id;
    }
    for (const std::string& id : Linked(file.text, "mpnanny://rules/")) {
      EXPECT_TRUE(FindFile("engines/check/rules/" + id + ".md"))
          << file.path << " links to the rule " << id;
    }
    for (const std::string& id : Linked(file.text, "mpnanny://alerts/")) {
      EXPECT_TRUE(FindFile("monitor/alerts/" + id + ".md"))
          << file.path << " links to the alert " << id;
    }
  }
}

// What a text tells its reader to type exists: "`mpnanny WORD", ": mpnanny WORD" or, in a page, a
// line of a code block that begins so.
TEST_F(PagesTest, CommandsThatTextsNameExist) {
  std::set<std::string> commands = {
      "serve",  "run",  "rules",   "knowledge", "call", "config",     "install", "doctor", "pack",
      "report", "ship", "capture", "view",      "tape", "completion", "man",     "export"};
  for (const Tool& tool : AllTools()) {
    const std::string& name = tool.definition.command.name;
    commands.insert(name.substr(0, name.find(' ')));
  }
  int named = 0;
  for (const SourceFile& file : Tree()) {
    const bool page = file.path.ends_with(".md");
    if (file.path.starts_with("tests/") || !(page || IsCpp(file.path))) continue;
    std::string text = file.text;
    bool fenced = false;
    for (const std::string& line : page ? file.Lines() : std::vector<std::string>{}) {
      if (line.starts_with("```")) fenced = !fenced;
      if (fenced && line.starts_with("mpnanny ")) text += "\n`" + line;
    }
    for (const char* start : {"`mpnanny ", ": mpnanny "}) {
      for (const std::string& word : Linked(text, start)) {
        if (word == "COMMAND" || word == "TOOL") continue;  // stands for any
        EXPECT_TRUE(commands.contains(word)) << file.path << " names `mpnanny " << word << "`";
        ++named;
      }
    }
  }
  EXPECT_GE(named, 10);
}

TEST_F(PagesTest, EveryListedResourceCanBeRead) {
  const AllowedRoots roots = *AllowedRoots::Create({std::string(MPNANNY_SOURCE_DIR) + "/tests"});
  const ToolContext context{.roots = roots, .data = data_, .cancel = {}, .progress = nullptr};
  std::set<std::string> seen;
  for (const ResourceTemplate& family : AllResourceTemplates()) {
    SCOPED_TRACE(family.uri_template);
    EXPECT_TRUE(seen.insert(family.uri_template).second);
    EXPECT_NE(family.uri_template.find("{" + family.variable + "}"), std::string::npos);
    EXPECT_FALSE(family.name.empty() || family.title.empty() || family.description.empty());
    const auto entries =
        family.list ? family.list(context) : std::vector<ResourceTemplate::Entry>{};
    for (const ResourceTemplate::Entry& entry : entries) {
      EXPECT_FALSE(entry.title.empty()) << entry.value;
      const Result<std::string> page = family.read(entry.value, context);
      EXPECT_TRUE(page && page->size() > 50)
          << entry.value << ": " << (page ? *page : page.error().Text());
    }
    for (const std::string& hostile :
         {std::string(), std::string("../../../etc/passwd"), std::string("no-such-thing"),
          std::string("\x1b[31m"), std::string(50000, 'a'), std::string("a\0b", 3)}) {
      const Result<std::string> page = family.read(hostile, context);
      ASSERT_FALSE(page) << "'" << hostile.substr(0, 40) << "' was read";
      EXPECT_NE(page.error().kind, ErrorKind::kInternal) << page.error().Text();
      EXPECT_LE(page.error().Text().size(), 2500u);
    }
  }
}

}  // namespace
}  // namespace mpnanny::checks
