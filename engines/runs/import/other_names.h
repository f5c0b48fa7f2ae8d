// Which figures a text prints where it holds none that is read: said instead of "no figures".
//
// A value owned by one reader; the text is data from outside.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_OTHER_NAMES_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_OTHER_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engines/runs/import/named_numbers.h"

namespace mpnanny::imports {

class OtherNames {
 public:
  void Add(std::string_view line);
  // "It prints \"accuracy\", \"total time\", and none of these." or "".
  std::string Text() const;

 private:
  struct Name {
    int64_t count = 0, place = 0;
    double first = 0;
    bool varies = false;
  };
  void AddValue(std::string_view name, double value);

  std::map<std::string, Name, std::less<>> names_;
  std::vector<std::string> header_;  // cells of the first line, if it names columns
  int64_t lines_ = 0;
  std::vector<NamedNumber> numbers_;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_OTHER_NAMES_H_
