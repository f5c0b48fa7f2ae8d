// What is drawn is in the PNG, and nothing that is drawn breaks it. PNGs are read back by zlib.
#include "engines/pictures/canvas.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/files.h"

namespace mpnanny::pictures {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr Colour kRed{255, 0, 0};

const std::string& Font() {
  static const std::string font = *ReadFile(MPNANNY_FONT, 1 << 24);
  return font;
}

// The pixels of a PNG of 8-bit RGB: filters undone, checksums left to zlib.
struct Image {
  explicit Image(const std::string& png) {
    const auto number = [&](size_t at) {
      uint32_t value = 0;
      for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
      return value;
    };
    if (!png.starts_with("\x89PNG\r\n\x1a\n")) return;
    width = number(16);
    height = number(20);
    std::string packed;
    for (size_t at = 8; at + 8 <= png.size();) {
      const size_t length = number(at);
      if (png.compare(at + 4, 4, "IDAT") == 0) packed += png.substr(at + 8, length);
      at += length + 12;
    }
    const size_t row = size_t{width} * 3;
    std::string lines((row + 1) * height, '\0');
    uLongf size = lines.size();
    if (uncompress(reinterpret_cast<Bytef*>(lines.data()), &size,
                   reinterpret_cast<const Bytef*>(packed.data()), packed.size()) != Z_OK) {
      return;
    }
    pixels.assign(row * height, 0);
    for (size_t y = 0; y < height; ++y) Undo(lines.substr(y * (row + 1), row + 1), y, row);
  }

  void Undo(const std::string& line, size_t y, size_t row) {
    for (size_t x = 0; x < row; ++x) {
      const int left = x >= 3 ? pixels[y * row + x - 3] : 0;
      const int up = y > 0 ? pixels[(y - 1) * row + x] : 0;
      const int corner = x >= 3 && y > 0 ? pixels[(y - 1) * row + x - 3] : 0;
      const int p = left + up - corner;
      const int paeth = std::abs(p - left) <= std::abs(p - up) &&
                                std::abs(p - left) <= std::abs(p - corner)
                            ? left
                        : std::abs(p - up) <= std::abs(p - corner) ? up
                                                                   : corner;
      const int from[] = {0, left, up, (left + up) / 2, paeth};
      pixels[y * row + x] = static_cast<unsigned char>(static_cast<unsigned char>(line[x + 1]) +
                                                       from[static_cast<size_t>(line[0])]);
    }
  }

  size_t Count(Colour colour) const {
    size_t count = 0;
    for (size_t at = 0; at + 2 < pixels.size(); at += 3) {
      count += pixels[at] == colour.red && pixels[at + 1] == colour.green &&
               pixels[at + 2] == colour.blue;
    }
    return count;
  }
  size_t Inked() const { return pixels.size() / 3 - Count({255, 255, 255}); }

  uint32_t width = 0, height = 0;
  std::vector<unsigned char> pixels;
};

TEST(Canvas, AFilledBoxHasItsPixels) {
  Canvas canvas(40, 30, Font());
  canvas.Fill({10, 10, 20, 15}, kRed);
  const Image image(canvas.Png());
  EXPECT_EQ(image.width, 40U);
  EXPECT_EQ(image.height, 30U);
  EXPECT_EQ(image.Count(kRed), 50U);
  EXPECT_EQ(image.Inked(), 50U);
}

TEST(Canvas, ALineHasAGapWhereAPointIsNotFinite) {
  Canvas whole(100, 20, Font()), broken(100, 20, Font());
  whole.Line({{0, 10}, {50, 10}, {100, 10}}, kRed, 2);
  broken.Line({{0, 10}, {30, 10}, {kGap, kGap}, {70, 10}, {100, 10}}, kRed, 2);
  EXPECT_EQ(Image(whole.Png()).Count(kRed), 200U);
  EXPECT_EQ(Image(broken.Png()).Count(kRed), 120U);
}

TEST(Canvas, WhatLiesOutsideIsCutOff) {
  Canvas canvas(20, 20, Font());
  canvas.Fill({-1e6, -1e6, 1e6, 1e6}, kRed);
  canvas.Line({{-1e7, 5}, {1e7, 5}}, kRed, 3);
  canvas.Polygon({{kGap, 1}, {2, 2}}, kRed);
  EXPECT_EQ(Image(canvas.Png()).Count(kRed), 400U);
}

TEST(Canvas, TextIsInkAndAsWideAsItSays) {
  Canvas canvas(200, 40, Font());
  canvas.Text({10, 30}, 12, "65504 ≤ x", kRed);
  EXPECT_GT(Image(canvas.Png()).Inked(), 50U);
  EXPECT_GT(canvas.TextWidth(12, "mmmm"), canvas.TextWidth(12, "iiii"));
  EXPECT_DOUBLE_EQ(canvas.TextWidth(24, "ab"), 2 * canvas.TextWidth(12, "ab"));
}

TEST(Canvas, TextIsShortenedToItsRoom) {
  const Canvas canvas(10, 10, Font());
  EXPECT_EQ(canvas.Shortened(12, "short", 100), "short");
  const std::string cut = canvas.Shortened(12, std::string(1000, 'm'), 100);
  EXPECT_TRUE(cut.ends_with("…"));
  EXPECT_LE(canvas.TextWidth(12, cut), 100);
  EXPECT_GT(canvas.TextWidth(12, cut), 80);
}

TEST(Canvas, NoTextBreaksIt) {
  for (const std::string& text :
       {std::string("\xff\xfe\x80"), std::string(3, '\0'), std::string("层\xe5\xb1"),
        std::string("\xf4\x90\x80\x80"), std::string(100'000, 'x')}) {
    Canvas canvas(60, 30, Font());
    canvas.Text({0, 20}, 12, text, kRed, Align::kCentre, true);
    EXPECT_EQ(Image(canvas.Png()).width, 60U);
  }
}

TEST(Canvas, WithoutAFontTheRestIsDrawn) {
  Canvas canvas(20, 20, "this is no font");
  canvas.Text({0, 10}, 12, "text", kRed);
  canvas.Fill({0, 0, 2, 2}, kRed);
  EXPECT_EQ(Image(canvas.Png()).Inked(), 4U);
}

}  // namespace
}  // namespace mpnanny::pictures
