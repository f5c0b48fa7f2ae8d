// From paths to sources: which files of a folder are looked at.
//
// A file that is named is always read. In a folder: *.py and *.ipynb, and what of *.json, *.yaml,
// *.yml and *.sh may configure a training run; below it too, but not hidden
// folders, virtual environments, node_modules, build output, version-control data, folders called
// tests or docs, nor what a .gitignore excludes, in the folder, below it, or above it in the same
// repository. Symbolic links are not followed. Reads only. Free function.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_SOURCES_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_SOURCES_H_

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "engines/check/engine.h"
#include "engines/check/inputs/pyproject.h"

namespace mpnanny::check {

struct CollectedSources {
  std::vector<Source>
      sources;  // paths as named by the caller, or below a named folder; sorted within a folder
  std::vector<Pyproject> projects;  // whose configuration was found
  int skipped = 0;                  // files that could not be read (then a note says why)
  std::vector<std::string> notes;
};

// With `rule_ids` (all there are) the [tool.mpnanny] of the nearest pyproject.toml above each path
// is followed; without, none is read. Fails if a path does not exist or lies outside the roots, and
// when cancelled. With `force_exclude` a path that is named is left out as well where its project
// excludes it. What lies below a folder and cannot be read becomes a note.
Result<CollectedSources> CollectSources(const std::vector<std::string>& paths,
                                        const AllowedRoots& roots, const CancelToken& cancel,
                                        const std::vector<std::string>& rule_ids = {},
                                        bool force_exclude = false);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_SOURCES_H_
