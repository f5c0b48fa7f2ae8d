// The part of bench/queries.py that is ours: makes its database, and times the tools without a
// server between (README.md).
//
//   bench-queries make FILE [--layers N] [--samples N] [--interval N] [--alerts N]
//   bench-queries time FILE CALLS   one line of JSON a call: {"tool","args"}; prints the
//                                   milliseconds of each, of the clock and of the processor
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/data_files.h"
#include "base/json.h"
#include "bench/queries_database.h"
#include "tools/call.h"
#include "tools/tool.h"

namespace {

using mpnanny::Json;

int Make(int argc, char** argv) {
  mpnanny::bench::RecordingSize size;
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int64_t value = std::atoll(argv[i + 1]);
    if (name == "--layers") size.layers = value;
    if (name == "--samples") size.samples = value;
    if (name == "--interval") size.interval = value;
    if (name == "--alerts") size.alerts = value;
  }
  return mpnanny::bench::MakeRecording(argv[2], size) ? 0 : 1;
}

int Time(const std::string& database, const std::string& calls) {
  auto roots =
      mpnanny::AllowedRoots::Create({std::filesystem::absolute(database).parent_path().string()});
  auto data = mpnanny::DataFiles::Create();
  if (!roots || !data) return 1;
  const auto tools = mpnanny::AllTools();
  std::ifstream lines(calls);
  for (std::string line; std::getline(lines, line);) {
    auto call = mpnanny::ParseJson(line);
    if (!call) return 1;
    for (const mpnanny::Tool& tool : tools) {
      if (tool.definition.name != call->value("tool", "")) continue;
      const mpnanny::ToolContext context{
          .roots = *roots, .data = *data, .cancel = {}, .progress = nullptr};
      const auto start = std::chrono::steady_clock::now();
      const std::clock_t busy = std::clock();
      const auto output = mpnanny::CallTool(tool, (*call)["args"], context);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      if (!output) std::fprintf(stderr, "%s\n", output.error().Text().c_str());
      const double cpu = 1e3 * static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC;
      std::printf("%.4f %.4f\n", output ? took.count() : -1, cpu);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  if (command == "make") return Make(argc, argv);
  if (command == "time" && argc == 4) return Time(argv[2], argv[3]);
  std::fprintf(stderr, "bench-queries make FILE [--layers N …] | time FILE CALLS\n");
  return 2;
}
