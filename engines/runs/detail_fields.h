// The fields of the JSON that rows of a run carry (`detail` of alerts, events, shadow steps and
// findings; `reach`, `cure`), and what of the user's each of them may hold. What a pack hides
// follows from it.
//
// Constants and a free function; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_DETAIL_FIELDS_H_
#define MPNANNY_ENGINES_RUNS_DETAIL_FIELDS_H_

#include <span>
#include <string_view>

namespace mpnanny::runs {

// What the text of a field may be. A list holds what its elements do; an object has fields of its
// own.
enum class FieldContent {
  kFigure,      // none: numbers, yes and no. What is not finite is a word
  kWord,        // the monitor's own words, or a dtype
  kOperator,    // "aten.sub.Tensor", of PyTorch or of a library; or the line that calls it
  kByOperator,  // an object whose keys are operators
  kSource,      // "file:line"
  kName         // of the program: a module, tensor, function or class, or a text that may quote one
};

struct DetailField {
  std::string_view key;
  FieldContent content = FieldContent::kFigure;
  std::span<const std::string_view> words = {};  // the monitor's own beside that
};

// nullptr: no field of the monitor's, so that the key itself may be a name.
const DetailField* FindDetailField(std::string_view key);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_DETAIL_FIELDS_H_
