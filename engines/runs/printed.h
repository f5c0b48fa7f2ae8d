// To how many digits a log prints a figure, told from the values themselves: their shortest decimal
// forms have the digits that were printed, but for zeros at the end.
//
// Plain values and pure functions.
#ifndef MPNANNY_ENGINES_RUNS_PRINTED_H_
#define MPNANNY_ENGINES_RUNS_PRINTED_H_

#include <string>

#include "engines/runs/named_figures.h"

namespace mpnanny::runs {

// The digits of the shortest decimal form that is this number: 2.3101 has 5 and 4 behind the point,
// 1e-05 has 1 and 5, 1200 has 2 and none.
struct Digits {
  int significant = 0, behind_point = 0;
};
Digits DigitsOf(double value);

class Printed {
 public:
  explicit Printed(const FigureSeries& series);

  // What one step of the last printed digit is worth at a value.
  double Unit(double value) const;
  // False where numbers stand in full, as a file of numbers or a program's own record has them, or
  // where too few differ to tell.
  bool rounded() const { return rounded_; }
  // "4 decimals", "6 digits", "full precision", "the digits shown".
  std::string Words() const;

 private:
  bool known_ = false, rounded_ = false, fixed_ = false;
  int significant_ = 0, behind_point_ = 0;
};

// Whether two printed values may be one number: they differ by no more than the rounding of the
// coarser print. Two that are not finite are equal if they are the same.
bool EqualAsPrinted(double a, const Printed& print_a, double b, const Printed& print_b);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_PRINTED_H_
