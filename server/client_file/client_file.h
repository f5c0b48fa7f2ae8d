// The configuration file of a client, as a text that names servers: reading our entry, putting it
// in, taking it out. Nothing else in the text changes; an edit that would is refused.
//
// Free functions without state; safe from any thread. Nothing is read or written here.
#ifndef MPNANNY_SERVER_CLIENT_FILE_CLIENT_FILE_H_
#define MPNANNY_SERVER_CLIENT_FILE_CLIENT_FILE_H_

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

inline constexpr char kServerName[] = "mpnanny";

enum class FileFormat {
  kJson,         // comments are an error for the client
  kLenientJson,  // comments and trailing commas are not
  kToml,
};

// A block is what `config` prints: {"<key>": {"mpnanny": {…}}}, perhaps with {"inputs": […]}
// beside.

// The block as the client's file writes it, with a line end.
std::string BlockText(FileFormat format, const Json& block);

// What is ours in `text`, as a block; an empty object if there is no entry of ours under `key`. The
// error names the line of a broken file.
Result<Json> BlockIn(FileFormat format, const std::string& text, const std::string& key);

// `text` with the block in it. An entry that is there is changed where it differs: what its user
// added to it stays.
Result<std::string> WithBlock(FileFormat format, const std::string& text, const Json& block);

// `text` without our entry and our input. `key` itself stays, empty, unless `with_key` says that it
// goes when nothing else is under it.
Result<std::string> WithoutBlock(FileFormat format, const std::string& text, const std::string& key,
                                 bool with_key);

// True if the text says nothing: no value at all, or an empty object.
bool SaysNothing(FileFormat format, const std::string& text);

// True if the text has `key`.
bool HasKey(FileFormat format, const std::string& text, const std::string& key);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_CLIENT_FILE_CLIENT_FILE_H_
