// bench-static-check: how fast the static check is, beside bare parsing of the same files.
//
// Usage: bench-static-check FOLDER [--threads 1,2] [--skip] [--profile]
//
// Every folder in FOLDER is one project. All *.py files are read before the clock starts. One run
// measures, for each number of threads, parsing alone and the whole check once, and prints one JSON
// object; bench/static_check/speed.py repeats and compares. --skip leaves files unparsed that do
// not mention torch, as the product does. --profile tells instead where the time of one thread
// goes. Not part of the product.
#include <tree_sitter/api.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/data_files.h"
#include "engines/check/engine.h"
#include "engines/check/facts/facts.h"
#include "engines/check/facts/modules.h"
#include "engines/check/rule_set.h"
#include "engines/check/syntax/syntax.h"
#include "engines/check/syntax/text_search.h"
#include "engines/check/syntax/tree_sitter.h"
#include "engines/check/unit.h"

namespace mpnanny::check {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench-static-check: %s\n", what.c_str());
  std::exit(1);
}

struct Project {
  std::vector<Source> sources;
  size_t bytes = 0;
};

std::vector<Project> ReadProjects(const fs::path& folder) {
  std::vector<Project> projects;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    Project project;
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(entry)) {
      if (!file.is_regular_file() || file.path().extension() != ".py") continue;
      std::ifstream in(file.path(), std::ios::binary);
      std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      project.bytes += text.size();
      project.sources.push_back({file.path().string(), std::move(text)});
    }
    std::sort(project.sources.begin(), project.sources.end(),
              [](const Source& a, const Source& b) { return a.path < b.path; });
    if (!project.sources.empty()) projects.push_back(std::move(project));
  }
  // Large ones first, so that threads end at about the same time; by name where sizes are equal.
  std::sort(projects.begin(), projects.end(), [](const Project& a, const Project& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.sources[0].path < b.sources[0].path;
  });
  return projects;
}

size_t NonBlankLines(std::string_view text) {
  size_t lines = 0;
  bool blank = true;
  for (const char c : text) {
    if (c == '\n') {
      lines += blank ? 0 : 1;
      blank = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      blank = false;
    }
  }
  return lines + (blank ? 0 : 1);
}

// Wall clock, and the time that this process had a processor: the second says more on a machine
// that others use too.
struct Stopwatch {
  std::chrono::steady_clock::time_point wall = std::chrono::steady_clock::now();
  double cpu = Cpu();
  static double Cpu() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
  double WallSeconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  }
  double CpuSeconds() const { return Cpu() - cpu; }
};

TsParser NewParser() {
  TsParser parser(ts_parser_new());
  if (!ts_parser_set_language(parser.get(), tree_sitter_python())) Fail("no Python grammar");
  return parser;
}

// Parses every file once, on that many threads, each with a parser of its own.
Json ParseAll(const std::vector<Project>& projects, unsigned threads) {
  std::vector<const Source*> sources;
  for (const Project& project : projects) {
    for (const Source& source : project.sources) sources.push_back(&source);
  }
  std::atomic<size_t> next{0};
  std::atomic<size_t> parsed{0};
  const Stopwatch watch;
  const auto work = [&] {
    const TsParser parser = NewParser();
    for (size_t i = next++; i < sources.size(); i = next++) {
      const std::string& text = sources[i]->text;
      const TsTree tree(ts_parser_parse_string(parser.get(), nullptr, text.data(),
                                               static_cast<uint32_t>(text.size())));
      parsed += tree ? 1 : 0;
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return {{"what", "parse"},
          {"threads", threads},
          {"wall_s", watch.WallSeconds()},
          {"cpu_s", watch.CpuSeconds()},
          {"files", parsed.load()},
          {"skipped", 0},
          {"findings", 0}};
}

// Checks every project once, one after the other, with every rule and all that it finds.
Json CheckAll(const std::vector<Project>& projects, const RuleSet& rules, unsigned threads,
              bool skip) {
  Options options;
  options.rules = rules.Ids();
  options.threads = threads;
  options.skip_without_torch = skip;
  int files = 0, skipped = 0;
  size_t findings = 0;
  const Stopwatch watch;
  for (const Project& project : projects) {
    const auto report = Check(project.sources, options, rules, CancelToken());
    if (!report) Fail(report.error().Text());
    files += report->files_scanned;
    skipped += report->files_skipped;
    findings += report->findings.size();
  }
  return {{"what", "check"},
          {"threads", threads},
          {"wall_s", watch.WallSeconds()},
          {"cpu_s", watch.CpuSeconds()},
          {"files", files},
          {"skipped", skipped},
          {"findings", findings}};
}

// Where the time of one thread goes. The phases are called as the engine calls them, project by
// project; what Check() does besides (telling findings) is the difference to its own time.
Json Profile(const std::vector<Project>& projects, const RuleSet& rules) {
  std::map<std::string, double> seconds;
  const CancelToken cancel;
  const TsParser parser = NewParser();
  const auto timed = [&seconds](const std::string& phase, auto&& work) {
    const Stopwatch watch;
    work();
    seconds[phase] += watch.CpuSeconds();
  };
  for (const Project& project : projects) {
    timed("1 parse alone", [&] {
      for (const Source& source : project.sources) {
        const TsTree tree(ts_parser_parse_string(parser.get(), nullptr, source.text.data(),
                                                 static_cast<uint32_t>(source.text.size())));
      }
    });
    for (const Source& source : project.sources) {
      timed("2 Syntax::Parse alone (1 and the tree's copy)",
            [&] { const auto syntax = Syntax::Parse(source.text, cancel); });
    }
    std::vector<Unit> units(project.sources.size());
    std::vector<FileFacts*> files;
    timed("3 ReadUnit (2, decoding, facts of one file, queries)", [&] {
      for (size_t i = 0; i < units.size(); ++i) {
        if (!ReadUnit(project.sources[i], rules, false, cancel, &units[i])) Fail("cancelled");
      }
    });
    for (const Unit& unit : units) {
      if (unit.facts) files.push_back(unit.facts.get());
    }
    Modules modules;
    timed("4 LinkFacts (who defines what)", [&] { LinkFacts(files, 1, &modules); });
    timed("4 CompleteFacts (dtypes, protocol)", [&] { CompleteFacts(files, 1, cancel); });
    for (const FileFacts* file : files) {
      const WordIndex words(file->syntax.text());
      std::vector<RawFinding> raw;
      Sink sink(&raw);
      for (size_t rule = 0; rule < rules.pages().size(); ++rule) {
        if (rules.check(rule) == nullptr) continue;
        sink.set_rule(rule);
        const Stopwatch watch;
        rules.check(rule)(*file, sink);
        const double spent = watch.CpuSeconds();
        seconds["5 rules, all"] += spent;
        seconds["5 rule " + rules.pages()[rule].id] += spent;
      }
    }
    timed("6 free", [&] { units.clear(); });
  }
  timed("Check as a whole", [&] { CheckAll(projects, rules, 1, false); });
  return seconds;
}

// The files that take longest for their size, each checked alone.
Json Slowest(const std::vector<Project>& projects, const RuleSet& rules) {
  constexpr size_t kShown = 20;
  struct Timed {
    const Source* source;
    double seconds;
    double PerByte() const { return seconds / static_cast<double>(source->text.size()); }
  };
  Options options;
  options.rules = rules.Ids();
  options.threads = 1;
  const auto measure = [&](const Source& source) {
    const Stopwatch watch;
    if (!Check({source}, options, rules, CancelToken())) Fail(source.path);
    return watch.CpuSeconds();
  };
  const auto slower = [](const Timed& a, const Timed& b) { return a.PerByte() > b.PerByte(); };
  std::vector<Timed> files;
  for (const Project& project : projects) {
    for (const Source& source : project.sources) {
      // Below a kilobyte, what every call costs is most of it.
      if (source.text.size() >= 1000) files.push_back({&source, measure(source)});
    }
  }
  std::sort(files.begin(), files.end(), slower);
  files.resize(std::min(files.size(), 3 * kShown));
  // Once more: the first time may have been interrupted.
  for (Timed& file : files) file.seconds = std::min(file.seconds, measure(*file.source));
  std::sort(files.begin(), files.end(), slower);
  files.resize(std::min(files.size(), kShown));
  Json told = Json::array();
  for (const Timed& file : files) {
    told.push_back({{"path", file.source->path},
                    {"bytes", file.source->text.size()},
                    {"milliseconds", 1e3 * file.seconds},
                    {"ns_a_byte", 1e9 * file.PerByte()}});
  }
  return told;
}

int Main(int argc, char** argv) {
  std::string folder;
  std::vector<unsigned> threads = {1};
  bool profile = false, skip = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--profile") {
      profile = true;
    } else if (argument == "--skip") {
      skip = true;
    } else if (argument == "--threads" && i + 1 < argc) {
      threads.clear();
      for (const char c : std::string_view(argv[++i])) {
        if (c >= '1' && c <= '9') threads.push_back(static_cast<unsigned>(c - '0'));
      }
    } else if (folder.empty() && !argument.starts_with("-")) {
      folder = argument;
    } else {
      Fail("usage: bench-static-check FOLDER [--threads 1,2] [--skip] [--profile]");
    }
  }
  if (!fs::is_directory(folder)) Fail("'" + folder + "' is no folder");
  const auto data = DataFiles::Create();
  if (!data) Fail(data.error().Text());
  const auto rules = RuleSet::Load(*data);
  if (!rules) Fail(rules.error().Text());
  const std::vector<Project> projects = ReadProjects(folder);
  Json result = {{"projects", projects.size()}, {"rules", (*rules)->pages().size()}};
  size_t files = 0, bytes = 0, lines = 0;
  for (const Project& project : projects) {
    files += project.sources.size();
    bytes += project.bytes;
    for (const Source& source : project.sources) lines += NonBlankLines(source.text);
  }
  result["files"] = files;
  result["bytes"] = bytes;
  result["lines"] = lines;
  if (profile) {
    result["profile"] = Profile(projects, **rules);
    result["slowest"] = Slowest(projects, **rules);
  } else {
    for (const unsigned number : threads) {
      result["runs"].push_back(ParseAll(projects, number));
      result["runs"].push_back(CheckAll(projects, **rules, number, skip));
    }
  }
  std::printf("%s\n", result.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace mpnanny::check

int main(int argc, char** argv) { return mpnanny::check::Main(argc, argv); }
