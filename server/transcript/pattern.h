// Patterns of messages: what a transcript expects (tests/transcripts/README.md has the language).
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_TRANSCRIPT_PATTERN_H_
#define MPNANNY_SERVER_TRANSCRIPT_PATTERN_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "server/transcript/names.h"

namespace mpnanny {

// Where `value` does not fit `pattern`: "/result/tools/0: expected …, got …" each, at most a few.
std::vector<std::string> Differences(const Json& pattern, const Json& value);

// Gives the names that `pattern` asks for ("$as") the values that stand there.
void TakeNames(const Json& pattern, const Json& value, Names& names);

// True if `message` is what a pattern like this waits for: the answer with its id, a notification
// of its method and of the same call; a batch for a batch.
bool IsMeant(const Json& pattern, const Json& message);

// The elements of a batch in the order of the pattern's, by their ids.
Json InOrderOf(const Json& pattern, Json message);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSCRIPT_PATTERN_H_
