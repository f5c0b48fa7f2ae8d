// Named series of numbers over steps ("train/loss", "lr-AdamW", "val/acc"), gathered before it is
// decided which of them is the loss, the gradient norm, the scale and the learning rate.
//
// The numbers lie in the recorder's database until then. One owner on one thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_SERIES_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_SERIES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/runs/import/field.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/statement.h"

namespace mpnanny::imports {

class Series {
 public:
  explicit Series(Import& into);

  // One value. A later one for the same step wins; where a name's steps go back (a resumed run),
  // what it had from there on is dropped. Names that stand for no figure are only counted.
  void Add(std::string_view name, int64_t step, double value, std::optional<double> at);

  // Chooses for each figure the best-named series, writes the steps, and notes what was chosen and
  // what else there was.
  void Finish();

  int64_t values() const { return values_; }

 private:
  struct Known {
    int64_t id = 0;
    Field field = Field::kNone;
    int rank = 0;
    int64_t count = 0, last_step = 0, stride = 1;
    bool finite_seen = false;
    std::optional<int32_t> figure;  // where its values are kept under their name
    std::string name;
  };
  void GoBack(Known& known, int64_t step);
  void WriteSteps(const std::map<int64_t, const Known*>& chosen);

  Import& into_;  // borrowed
  std::map<std::string, Known, std::less<>> known_;
  Writer insert_;
  int64_t values_ = 0, left_out_ = 0, went_back_ = 0;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_SERIES_H_
