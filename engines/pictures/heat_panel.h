// Layers × steps as a field of coloured cells.
//
// Plain values; a free function.
#ifndef MPNANNY_ENGINES_PICTURES_HEAT_PANEL_H_
#define MPNANNY_ENGINES_PICTURES_HEAT_PANEL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engines/pictures/axes.h"
#include "engines/pictures/heat_map.h"

namespace mpnanny::pictures {

// The cell of a layer (raw name) at a step.
struct HeatCell {
  std::string layer;
  int64_t step = 0;
};

// The height of a box with room for a row for each layer, within reason.
double HeatMapHeight(const HeatMaps& maps, const HeatMap& map);

// Neighbouring layers share a row where there are more than the box has room for; a row shows the
// worst of them. The cell of `first_bad` has a frame.
void DrawHeatMap(Canvas& canvas, const Box& box, const HeatMaps& maps, const HeatMap& map,
                 const std::optional<HeatCell>& first_bad);

// What a map shows, with its unit: "largest magnitude of activations".
std::string HeatMapTitle(const HeatMap& map);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_HEAT_PANEL_H_
