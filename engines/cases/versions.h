// The versions that a case is about and those that it was last verified with: `versions` and
// `verified_with` of its front matter. A claim about a version that nobody has looked at is a
// claim about the future, and lint names it.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_ENGINES_CASES_VERSIONS_H_
#define MPNANNY_ENGINES_CASES_VERSIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/cases/case.h"

namespace mpnanny::cases {

// "torch>=2.9" or "torch>=2.9,<2.12": one package and the bounds of its affected versions.
struct AffectedVersions {
  std::string package;
  struct Bound {
    std::string op;  // >= <= == < >
    std::string version;
  };
  std::vector<Bound> bounds;
};
Result<AffectedVersions> ParseAffectedVersions(std::string_view text);

// "torch 2.13.0": run here; "transformers 5.0 (source)": read in its source or its threads.
struct VerifiedVersion {
  std::string package, version;
  bool from_source = false;
};
Result<VerifiedVersion> ParseVerifiedVersion(std::string_view text);

// Below 0, 0 or above 0 as `a` is older than, the same as or newer than `b`, number by number.
int CompareVersions(std::string_view a, std::string_view b);

// Claims of the case that depend on a version newer than its verification, each as a sentence:
// bounds in `versions`, and "torch 2.14" or "PyTorch 2.14" anywhere in its text.
std::vector<std::string> UnverifiedClaims(const Case& one);

}  // namespace mpnanny::cases

#endif  // MPNANNY_ENGINES_CASES_VERSIONS_H_
