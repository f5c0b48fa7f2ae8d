// Where a reader puts every number that a log prints under a name: engines/runs/named_figures.h
// reads them.
//
// A recorder owns one, and the database that it writes to outlives it. One thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_FIGURE_STORE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_FIGURE_STORE_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engines/runs/import/statement.h"

namespace mpnanny::imports {

// A number of a line or row, by the store's number for its name.
struct NamedValue {
  int32_t name = 0;
  double value = 0;
};

class FigureStore {
 public:
  FigureStore() = default;
  // Makes the tables; false if the database takes none.
  bool Create(sqlite3* database);

  // The name's number; nullopt for one that counts steps, and beyond what is kept.
  std::optional<int32_t> IdOf(std::string_view name);
  // A value at a step; a later one wins. `line`: that prints it, 0 where there is none. Of a figure
  // whose name says which way is the good one the lines are kept as well (ReadLinesOfFigure).
  void Put(int64_t step, NamedValue figure, int64_t line = 0);

  // The log goes back to `step`: what stands from there on belongs to the attempt `run_id` (0: to
  // none).
  void GoBack(int64_t step, int64_t run_id);
  // One name's values go back.
  void GoBack(int32_t name, int64_t step);

  // Writes what is held, and the names. False if the database had no room.
  bool Finish();

  // What there is beside the figures that have a place of their own, and what was left out, as a
  // sentence for people; "" if nothing.
  std::string OthersText() const;

 private:
  struct Name {
    std::string text, part;  // the part that is being filled
    int64_t last = 0;
    // How many steps show it, and whether it is always the same.
    int64_t steps = 0, last_step = 0;
    double first = 0;
    bool varies = false;
    bool has_sense = false;
    std::optional<int32_t> lines;  // the name under which its lines are kept
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::optional<int32_t> Learn(std::string_view name);
  int32_t LinesOf(int32_t name);
  void WritePart(int32_t name);
  void WriteCut(int64_t name, int64_t run_id, int64_t step);

  sqlite3* database_ = nullptr;  // borrowed
  std::vector<Name> names_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;  // -1: not kept
  Writer put_part_;
  int64_t parts_ = 0, values_ = 0, values_left_out_ = 0, names_left_out_ = 0;
  size_t known_ = 0;
  bool failed_ = false;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_FIGURE_STORE_H_
