// Sentences about whole numbers that a 16-bit format changes, as a Python side measured them.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_WHOLE_NUMBERS_H_
#define MPNANNY_ENGINES_PYTHON_CODE_WHOLE_NUMBERS_H_

#include <string>

#include "base/json.h"

namespace mpnanny::python_code {

// " Of this the aten.sin at train.py:21 makes an error of 19 %."; "" where `finding` has no `grows`.
std::string GrowthText(const Json& finding);

// "bfloat16 number range (arange) at train.py:18 changes 18 % of the whole numbers (up to 399):
// bfloat16 holds every whole number only up to 256. Of this …"
std::string WholeNumbersText(const Json& changed);

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_WHOLE_NUMBERS_H_
