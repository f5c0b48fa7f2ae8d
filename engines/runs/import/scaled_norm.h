// Some trainers print the norm of gradients that still carry the loss scale: it falls and rises
// with the scale, and a limit on it means nothing.
//
// Free function over one database of our own.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_SCALED_NORM_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_SCALED_NORM_H_

#include <sqlite3.h>

#include <string>
#include <vector>

namespace mpnanny::imports {

// Tells from the steps of run 1 whether the norm moves with the scale, at three moves of the scale
// or more; if so divides the norms by the scale and says so in `notes`. Norms that are 0 throughout
// are dropped.
void UnscaleNorms(sqlite3* database, std::vector<std::string>& notes);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_SCALED_NORM_H_
