// The corpora of bad input: one case a line of a .jsonl file, with what has to come back.
//
// What is sent (`send`; several messages as `lines`):
//   "text"            the text as it is          {…}  a message, written as compact JSON
//   [part, part …]    parts put together, each a text or
//     {"repeat": text, "times": n}   {"hex": "00ff"}   {"utf16": text}
//     {"keys": n}     "k0":0,"k1":0 … : n members of an object
// What comes back (`answer`; [] for nothing, a list where the order is open, {"batch": […]}):
//   {"id", "error": code}   an error;   "says": a piece of its message
//   {"id", "result": true}  a result;   {"id", "isError": true, "says"}  a tool's error
//   {"method"}              a notification
//   "has": {JSON pointer: value} (null: absent)      "most_bytes": of the whole answer
// `why` is for the reader.
#ifndef MPNANNY_TESTS_HOSTILE_CORPUS_H_
#define MPNANNY_TESTS_HOSTILE_CORPUS_H_

#include <string>
#include <vector>

#include "base/json.h"

namespace mpnanny::hostile {

// The cases of tests/hostile/<file>; a line that is none fails the test.
std::vector<Json> LoadCorpus(const std::string& file);

// The bytes that `send` stands for.
std::string Bytes(const Json& send);

// What is wrong with an answer, as text; empty if it is as expected. `line`: the answer as it came.
std::string Mismatch(const Json& expected, const std::string& line);

// Compares answers that may come in any order; the same for the answers in a batch.
std::string Mismatch(const Json& expected, const std::vector<std::string>& lines);

// How many messages a case's `answer` stands for.
size_t CountAnswers(const Json& answer);

}  // namespace mpnanny::hostile

#endif  // MPNANNY_TESTS_HOSTILE_CORPUS_H_
