// How precision runs through a project: the places that decide it, as a reader wants to see them
// before any finding.
//
// A free function. A place is what the text says there, by names that are resolved to
// torch's or a framework's; what is decided at run time is reported as "not known here".
#ifndef MPNANNY_ENGINES_CHECK_MAP_PLACES_H_
#define MPNANNY_ENGINES_CHECK_MAP_PLACES_H_

#include <vector>

#include "engines/check/map/map.h"
#include "engines/check/unit.h"

namespace mpnanny::check {

// The places of one checked file. `settings`: what it says to frameworks, in whatever language.
std::vector<MapPlace> FindPlaces(const Unit& unit, const std::vector<Settings>& settings);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_MAP_PLACES_H_
