// A Jupyter notebook as one Python module: its code cells joined, with the way back to cell and
// line.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_NOTEBOOK_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_NOTEBOOK_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny::check {

struct NotebookCell {
  int first_line = 1;  // in the joined text, 1-based
  int number = 1;      // among all cells of the notebook, 1-based
};

struct Notebook {
  std::string text;
  std::vector<NotebookCell> cells;  // code cells, in order
};

// Takes nbformat 3 and 4. Lines with IPython magics (%, !, ?) become `pass`, what they are assigned
// to gets None, cells in another language (%%bash) are empty. Fails on what is no notebook or in
// another language.
Result<Notebook> ReadNotebook(std::string_view json);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_NOTEBOOK_H_
