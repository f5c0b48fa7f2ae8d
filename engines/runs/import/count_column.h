// The shape that most of a log's records have, and the number in them that counts them where no
// name says so: "[10/200] loss 2.31". It is found by how it goes and by nothing else: a whole
// number that grows by the same from record to record, or begins anew.
//
// Text from outside; memory is bounded. A value owned by one reader.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_COUNT_COLUMN_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_COUNT_COLUMN_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::imports {

class CountColumn {
 public:
  // What the records show. Of a log without any loss they may be those of its scores.
  enum class Records { kLosses, kScores };
  explicit CountColumn(Records records) : records_(records) {}

  // First reading: a line with a loss and no step, or with a score. `epoch`: as the line names it.
  void Add(std::string_view line, std::optional<double> epoch);
  // Between the two: whether losses are counted by such a number, whether there are records of
  // scores at all.
  bool Settle();
  bool of_scores() const { return records_ == Records::kScores; }
  // Whether a line is a record of that shape.
  bool Fits(std::string_view line) const;

  struct Count {
    double done = 0;
    std::optional<double> total;  // "10/200"
  };
  // Of a line of that shape; nullopt where nothing counts.
  std::optional<Count> Of(std::string_view line) const;

 private:
  static constexpr size_t kStrides = 4;
  // One number of all lines of a shape.
  struct Slot {
    bool counts = true;  // so far: whole numbers, none of a date, a time, a share or with a unit
    bool is_epoch = true;
    double first = 0, last = 0;
    int64_t grows = 0, anew = 0;
    std::array<std::pair<double, int64_t>, kStrides> strides{};  // and how often
  };
  struct Shape {
    int64_t lines = 0;
    std::vector<Slot> slots;
  };
  static bool Counts(const Slot& slot, int64_t lines);

  Records records_;
  int64_t lines_ = 0;
  std::map<std::string, Shape, std::less<>> shapes_;
  std::string shape_;  // the chosen one
  std::optional<size_t> slot_;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_COUNT_COLUMN_H_
