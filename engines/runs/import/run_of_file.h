// One of several runs that a log's file holds one after another. A plain value.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_RUN_OF_FILE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_RUN_OF_FILE_H_

#include <cstdint>

namespace mpnanny::imports {

struct RunOfFile {
  int64_t run_id = 1;  // 1: the last
  int64_t first_line = 0, last_line = 0;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_RUN_OF_FILE_H_
