// A case as readers get it: the whole page or one part of it, as Markdown. The resource
// mpnanny://knowledge/{case}, search_knowledge with an `id` and `mpnanny knowledge show` print it.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_ENGINES_CASES_PAGE_H_
#define MPNANNY_ENGINES_CASES_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"
#include "engines/cases/case.h"

namespace mpnanny::cases {

// Names of the parts: symptom, mechanism, confirm, fix, code, evidence, reproduction.
std::vector<std::string> PartNames();

// The whole page: both titles and symptoms, what it affects and when it was verified, text,
// signals, links, and the program that shows the failure.
std::string WholePage(const Case& one, const DataFiles& data);

// One part, by a name of PartNames(). Fails with NotFound for a case without a program if that is
// asked for, and with InvalidInput for another name.
Result<std::string> PagePart(const Case& one, std::string_view part, const DataFiles& data);

// The case `id`, or an error that names the nearest id.
Result<const Case*> FindCase(const CaseLibrary& library, const std::string& id);

}  // namespace mpnanny::cases

#endif  // MPNANNY_ENGINES_CASES_PAGE_H_
