#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>

namespace mpnanny {
namespace {

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (size_t cut = 0; cut < 4; ++cut, bytes.pop_back()) {
    EXPECT_EQ(DecodeBase64(EncodeBase64(bytes)), bytes);
  }
  EXPECT_EQ(EncodeBase64("\xff\xfe "), "//4g");
  EXPECT_EQ(EncodeBase64("a"), "YQ==");
  EXPECT_EQ(EncodeBase64(""), "");
  EXPECT_EQ(DecodeBase64(""), "");
}

TEST(Base64, RefusesEveryOtherForm) {
  for (const char* text : {"YQ", "YQ=", "YQ==\n", " YQ==", "YQ==YQ==", "__4g", "?"}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mpnanny
