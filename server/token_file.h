// The bearer token that an HTTP server asks for, as its user gives it: one reader for the server
// and for the commands that speak of it, so that all of them mean the same token.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_SERVER_TOKEN_FILE_H_
#define MPNANNY_SERVER_TOKEN_FILE_H_

#include <string>

#include "base/result.h"

namespace mpnanny {

// The token in the file, without the white space around it. Refuses an empty file, what cannot
// stand in a header and a file that others than its owner may open; says how a good one is made if
// the file is missing.
Result<std::string> ReadTokenFile(const std::string& path);

// The token that is given in place of a file, "" if there is none; `where` names its place.
Result<std::string> ReadTokenText(const std::string& text, const std::string& where);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TOKEN_FILE_H_
