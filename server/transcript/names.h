// Names for what differs between two runs of one conversation: folders, handles of jobs, sealed
// state. A transcript holds the name, "${root}", where the run had the value.
//
// Plain value; not synchronised.
#ifndef MPNANNY_SERVER_TRANSCRIPT_NAMES_H_
#define MPNANNY_SERVER_TRANSCRIPT_NAMES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace mpnanny {

class Names {
 public:
  // The roots are "${root}", "${root2}" …, and "${root:uri}" … where they are percent-encoded. A
  // root is only meant where a path could end or go on: not in the middle of a longer name.
  explicit Names(const std::vector<std::string>& roots);

  // From now on `value` is "${name}"; a name that is known gets the new value.
  void Set(const std::string& name, std::string value);
  bool HasValue(std::string_view value) const;

  // Values become names, in every string inside; Show is the other way round. What looks like a
  // name already, "${root}", comes back as it was: Hide writes its "$" as "${$}".
  Json Hide(Json json) const;
  Json Show(Json json) const;
  std::string Hide(const std::string& text) const;
  std::string Show(const std::string& text) const;

 private:
  struct Name {
    std::string mark;  // "${root}"
    std::string value;
    bool is_path;
  };
  std::vector<Name> names_;  // longest value first: a root may lie in another
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSCRIPT_NAMES_H_
