// A proof in an answer: `proof` of a finding or a candidate, and a line beneath it.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_REPORT_PROOF_REPORT_H_
#define MPNANNY_ENGINES_CHECK_REPORT_PROOF_REPORT_H_

#include <string>

#include "base/json.h"
#include "engines/check/proof.h"

namespace mpnanny::check {

Json ProofJson(const Proof& proof);
Json ProofSchema();

// "proven: float16 exponential at losses.py:12 …" of the JSON form.
std::string ProofText(const Json& proof);
// "Put to the test: 3 proven, 5 not at these inputs, 2 not tried.\n" of those that have one; empty
// for none.
std::string ProofCounts(const Json& items);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_REPORT_PROOF_REPORT_H_
