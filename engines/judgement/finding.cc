#include "engines/judgement/finding.h"

#include <algorithm>

namespace mpnanny::judgement {

std::string Place::Schema() const {
  const size_t dot = op.find('.');
  if (dot == std::string::npos) return op;
  const size_t end = op.find('.', dot + 1);
  return op.substr(0, dot) +
         "::" + op.substr(dot + 1, end == std::string::npos ? end : end - dot - 1);
}

std::string Place::Key() const {
  return op + "|" + Source() + "|" + NameOf(phase) + (module ? "|" + *module : "");
}

void Finding::Reaches(Reached what, const std::string& name, double error) {
  for (Reach& each : reach) {
    if (each.what == what && each.name == name) {
      each.error = std::max(error, each.error);
      return;
    }
  }
  reach.push_back({what, name, std::max(error, 0.0)});
}

bool Finding::GetsTo(Reached what) const {
  return std::any_of(reach.begin(), reach.end(),
                     [&](const Reach& each) { return each.what == what; });
}

bool Finding::GetsOnlyTo(std::initializer_list<Reached> these) const {
  return std::all_of(reach.begin(), reach.end(), [&](const Reach& each) {
    return std::find(these.begin(), these.end(), each.what) != these.end();
  });
}

}  // namespace mpnanny::judgement
