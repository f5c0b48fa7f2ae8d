#include <cstdio>

#include "base/version.h"

int main() {
  std::printf("mpnanny %s\n", mpnanny::kVersion);
  return 0;
}
