// What two runs were told or given differently: precision, learning rate, environment, layers.
//
// Plain values; free function.
#ifndef MPNANNY_ENGINES_COMPARISON_CONFIGURATION_H_
#define MPNANNY_ENGINES_COMPARISON_CONFIGURATION_H_

#include <string>
#include <vector>

#include "engines/comparison/course.h"
#include "engines/comparison/tensors.h"
#include "engines/runs/run.h"

namespace mpnanny::comparison {

struct Setting {
  std::string key;
  std::string a, b;  // shown; "not recorded" where one run has none
};

// Settings that differ, what matters for the numbers first. Times of start and process numbers are
// no settings.
std::vector<Setting> DifferentSettings(const runs::Source& a, const runs::Source& b,
                                       const Course& course, const LayerPairs& layers);

// That the two are not one program in two settings, and by what: other layers, other sizes, another
// script. "" where nothing says so.
std::string DifferentPrograms(const runs::Run& a, const runs::Run& b, const LayerPairs& layers);

// Whether the two do not train one model: they share less than half of the larger one's layers, or
// most layers of one name have other sizes.
bool IsOtherModel(const LayerPairs& layers);

// A flag of the run's environment; false if it is not there.
bool EnvironmentFlag(const runs::Run& run, const char* key);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_CONFIGURATION_H_
