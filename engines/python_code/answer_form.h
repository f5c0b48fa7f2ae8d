// The form of an answer that comes from a process which ran code of the user's: what is not of it
// is no answer, and what it holds is safe to show.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_ANSWER_FORM_H_
#define MPNANNY_ENGINES_PYTHON_CODE_ANSWER_FORM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny::python_code {

// Far beyond what a large model's answer has.
inline constexpr size_t kMostItems = 200'000;       // of one list
inline constexpr size_t kMostFields = 1000;         // of one object
inline constexpr size_t kMostTextBytes = 64 << 10;  // of one text
inline constexpr size_t kMostNameBytes = 200;       // of a field

// The answer, if it fits the tool's schema and these bounds; its texts without control characters
// but line ends and tabs. The error says in a clause what does not fit.
Result<Json> InForm(Json answer, const Json& schema);

// A figure: a number, null, or a word for one that is not finite.
Json FigureSchema();
// An object of an answer with fields that are texts and fields that are figures; others may be what
// they are.
Json RowSchema(const std::vector<std::string>& texts, const std::vector<std::string>& figures);
Json RowsSchema(const std::vector<std::string>& texts, const std::vector<std::string>& figures);

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_ANSWER_FORM_H_
