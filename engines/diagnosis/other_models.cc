#include "engines/diagnosis/other_models.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <string>

namespace mpnanny::diagnosis {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFiles = 9;

// "metrics" of "metrics-2".
std::string WithoutNumber(const std::string& stem) {
  const size_t dash = stem.rfind('-');
  if (dash == std::string::npos || dash + 1 == stem.size()) return stem;
  const bool number = std::all_of(stem.begin() + static_cast<std::ptrdiff_t>(dash) + 1, stem.end(),
                                  [](unsigned char c) { return std::isdigit(c); });
  return number ? stem.substr(0, dash) : stem;
}

double EndOf(const runs::Run& run) {
  if (run.status == runs::Status::kRunning) return std::numeric_limits<double>::infinity();
  return run.ended_at.value_or(run.heartbeat_at.value_or(run.started_at));
}

bool AtTheSameTime(const runs::Run& a, const runs::Run& b) {
  return a.name == b.name && a.rank == b.rank && a.started_at <= EndOf(b) &&
         b.started_at <= EndOf(a);
}

}  // namespace

std::vector<runs::Source> OtherModels(const runs::Source& source, const AllowedRoots& roots,
                                      const CancelToken& cancel) {
  std::vector<runs::Source> models;
  if (source.run.handle.path.empty() || IsDatabaseUrl(source.run.handle.path)) return models;
  const fs::path file(source.run.handle.path);
  const std::string stem = WithoutNumber(file.stem().generic_string());
  for (int number = 1; number <= kMostFiles; ++number) {
    const std::string name = number == 1 ? stem : stem + "-" + std::to_string(number);
    const fs::path other = file.parent_path() / (name + file.extension().generic_string());
    std::error_code error;
    if (other == file || !fs::exists(other, error)) continue;
    auto opened = runs::OpenRun(other.generic_string(), roots, cancel);
    if (opened && opened->database && AtTheSameTime(source.run, opened->run)) {
      models.push_back(*std::move(opened));
    }
  }
  return models;
}

}  // namespace mpnanny::diagnosis
