// What a character of a log is, in ASCII.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_CHARACTERS_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_CHARACTERS_H_

#include <cctype>

namespace mpnanny::imports {

inline bool IsAlpha(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
inline bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
// Of a figure's name: "train/grad-norm", "acc_0.5".
inline bool IsWordChar(char c) {
  return IsAlpha(c) || IsDigit(c) || c == '_' || c == '/' || c == '.' || c == '-';
}

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_CHARACTERS_H_
