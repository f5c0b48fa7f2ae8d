// Whether what the rows of a tape refer to exists: a judge looks places, calls, inputs and slots up
// by their numbers, and believes them.
#ifndef MPNANNY_ENGINES_JUDGEMENT_REFERENCES_H_
#define MPNANNY_ENGINES_JUDGEMENT_REFERENCES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

// Rows, calls and slots of a step: a hundred times what the largest trainings have.
inline constexpr int kMostRows = 1 << 21;
// Elements of a tensor: sums over as many tensors as there can be rows stay below 2^63.
inline constexpr int64_t kMostElements = int64_t{1} << 40;

class References {
 public:
  // What is wrong with the next row, "" if nothing.
  std::string Take(const Row& row);

 private:
  std::string Check(const Place& row);
  std::string Check(const Figures& row) const;
  std::string Check(const Call& row);
  std::string Check(const Leaves& row) const;
  std::string Check(const Formats& row) const;
  std::string Check(const Fed& row) const;
  std::string Check(const Change& row) const;
  std::string Check(const Together& row) const;
  std::string Check(const Answer& row) const;
  template <typename T>
  std::string Check(const T& row) const;

  std::string CheckCall(int call) const;
  std::string CheckPlace(int place) const;

  int places_ = 0;
  std::vector<int> inputs_;  // how many each call has, kNone where there is no such call
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_REFERENCES_H_
