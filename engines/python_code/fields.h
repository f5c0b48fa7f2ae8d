// Fields of an answer that a Python side gave, where every number may be missing or not finite.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_FIELDS_H_
#define MPNANNY_ENGINES_PYTHON_CODE_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mpnanny::python_code {

// "nan", "inf" and "-inf" are words there; nullopt for what is not known.
std::optional<double> NumberAt(const Json& object, const char* key);
std::string TextAt(const Json& object, const char* key);
// Empty where there is none.
const Json& ListAt(const Json& object, const char* key);
const Json& ListAt(Json&& object, const char* key) = delete;  // it would be gone

// "2.5 %", "not finite", "not known".
std::string PercentAt(const Json& object, const char* key);
// Of answers with `computed_by`: figures that come from the process in which the code ran are no
// proof about code that means to deceive.
inline constexpr char kComputedBy[] =
    "Computed by the process that ran the code: only as trustworthy as that code.\n";
// Its texts, safe to show: "a, b".
std::string WordsOf(const Json& list);

// The JSON form within `bytes`: `lists`, which grow with the target, are cut by halves, the last
// one first, and what is left out is counted in `<list>_left_out`.
Json Shortened(const Json& answer, size_t bytes, const std::vector<std::string>& lists);

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_FIELDS_H_
