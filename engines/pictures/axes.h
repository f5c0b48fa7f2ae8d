// The frame of a picture of numbers: how values become places, which of them get a tick, and the
// titles with their units.
//
// Plain values and free functions.
#ifndef MPNANNY_ENGINES_PICTURES_AXES_H_
#define MPNANNY_ENGINES_PICTURES_AXES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "engines/pictures/canvas.h"

namespace mpnanny::pictures {

inline constexpr Colour kInk{22, 24, 29}, kSoftInk{77, 85, 98}, kGrid{221, 225, 230};
// Okabe and Ito's, which colour-blind people can tell apart.
inline constexpr Colour kBlue{0, 114, 178}, kVermilion{213, 94, 0}, kGreen{0, 158, 115},
    kPurple{204, 121, 167}, kOrange{230, 159, 0}, kSky{86, 180, 233};
inline constexpr double kLetters = 12, kSmallLetters = 11;

// Values from one end of an axis to the other.
struct Scale {
  double from = 0, to = 1;
  bool logarithmic = false;

  // 0 at `from`, 1 at `to`; NaN for what the scale has no place for.
  double Along(double value) const;
};

// With some room at the ends; a logarithmic one only if both are positive.
Scale ScaleBetween(double least, double greatest, bool logarithmic);

// Round values on the scale, at most about `wanted` of them.
std::vector<double> Ticks(const Scale& scale, size_t wanted);

struct Titles {
  std::string picture, x, y;
};

// The place for the data within a frame.
struct Plot {
  Box area;
  Scale x, y;

  Point At(double along_x, double along_y) const;
};

// Draws frame, grid, ticks and titles into `box` and tells where the data goes.
Plot DrawAxes(Canvas& canvas, const Box& box, const Scale& x, const Scale& y,
              const Titles& titles);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_AXES_H_
