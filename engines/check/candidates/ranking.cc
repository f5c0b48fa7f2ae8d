#include "engines/check/candidates/ranking.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace mpnanny::check {
namespace {

// What a further place of the same hazard is worth: in one file, in the project.
constexpr double kAgainInFile = 0.8, kAgainInProject = 0.96;

}  // namespace

std::vector<Candidate> RankCandidates(std::vector<Candidate> candidates,
                                      const std::vector<Finding>& findings) {
  std::set<std::pair<std::string_view, int>> reported;
  for (const Finding& finding : findings) reported.insert({finding.path, finding.line});
  std::erase_if(candidates,
                [&](const Candidate& one) { return reported.contains({one.path, one.line}); });
  const auto order = [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.score, std::string_view(a.path), a.line) <
           std::tuple(-b.score, std::string_view(b.path), b.line);
  };
  std::stable_sort(candidates.begin(), candidates.end(), order);
  std::set<std::pair<std::string_view, int>> places;
  std::map<std::pair<std::string, std::string>, std::string> copies;  // hazard, code -> path
  std::map<std::string, double> in_project;
  std::map<std::pair<std::string, std::string>, double> in_file;
  std::vector<Candidate> ranked;
  for (Candidate& one : candidates) {
    if (!places.insert({one.path, one.line}).second) continue;
    // A file that was copied is looked at once.
    if (copies.try_emplace({one.hazard, one.code}, one.path).first->second != one.path) continue;
    double& project = in_project.try_emplace(one.hazard, 1.0).first->second;
    double& file = in_file.try_emplace({one.hazard, one.path}, 1.0).first->second;
    one.score *= project * file;
    project *= kAgainInProject;
    file *= kAgainInFile;
    ranked.push_back(one);
  }
  std::stable_sort(ranked.begin(), ranked.end(), order);
  return ranked;
}

}  // namespace mpnanny::check
