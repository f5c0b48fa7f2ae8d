#include "server/token_file.h"

#include <algorithm>
#include <cstdint>

#include "base/files.h"
#include "base/os_file_system.h"
#include "base/text.h"

namespace mpnanny {

Result<std::string> ReadTokenText(const std::string& text, const std::string& where) {
  constexpr char kSpace[] = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  std::string token = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; })) {
    return InvalidInput(where + " does not hold one word of ASCII.",
                        "A token is one line of letters, digits and -._~+/=.");
  }
  return token;
}

Result<std::string> ReadTokenFile(const std::string& path) {
  constexpr uint64_t kMostTokenBytes = 4096;
  const Result<std::string> text = ReadFile(path, kMostTokenBytes);
  if (!text) {
    Error error = text.error();
    error.message = "--token-file " + error.message;
    if (error.kind == ErrorKind::kNotFound) {
      error.hint =
          "Make one: (umask 077; head -c 32 /dev/urandom | base64 > " + ShellQuote(path) + ")";
    }
    return error;
  }
  const std::string where = "--token-file " + EscapeControl(path);
  if (OpenToOthers(path)) {
#ifdef _WIN32
    const std::string close = "icacls \"" + path + "\" /inheritance:r /grant:r \"%USERNAME%:F\"";
#else
    const std::string close = "chmod 600 " + ShellQuote(path);
#endif
    return InvalidInput(where +
                            " is open to other users of this machine: who has the token may "
                            "read all that the server reads.",
                        close);
  }
  Result<std::string> token = ReadTokenText(*text, where);
  if (token && token->empty()) {
    return InvalidInput(where + " is empty.", "Make a token: (umask 077; openssl rand -hex 32 > " +
                                                  ShellQuote(path) + ")");
  }
  return token;
}

}  // namespace mpnanny
