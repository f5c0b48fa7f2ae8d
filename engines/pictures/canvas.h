// A picture in pixels, and its PNG: shapes by Anti-Grain Geometry 2.4, glyphs by stb_truetype, the
// file by stb_image_write.
//
// Owns its pixels; borrows the font's bytes, which must outlive it. One thread. Coordinates are
// pixels from the upper left corner. What lies outside is cut off; points that are not finite are
// left out.
#ifndef MPNANNY_ENGINES_PICTURES_CANVAS_H_
#define MPNANNY_ENGINES_PICTURES_CANVAS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::pictures {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
  uint8_t opacity = 255;
};

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

enum class Align { kLeft, kCentre, kRight };

class Canvas {
 public:
  // White. `font`: the bytes of a TrueType file; text is left out if they are none.
  Canvas(int width, int height, std::string_view font);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  void Fill(const Box& box, Colour colour);
  void Frame(const Box& box, Colour colour, double thickness = 1);
  void Polygon(const std::vector<Point>& corners, Colour colour);
  // `dash`: lengths of a dash and of the gap after it; 0 for a whole line.
  void Line(const std::vector<Point>& points, Colour colour, double thickness = 1, double dash = 0);

  // `at`: the baseline, at the left end, the middle or the right end. `size`: of the letters in
  // pixels. `upwards`: turned by a quarter.
  void Text(Point at, double size, std::string_view utf8, Colour colour,
            Align align = Align::kLeft, bool upwards = false);
  double TextWidth(double size, std::string_view utf8) const;
  // The text, cut with an ellipsis where it is wider than `width`.
  std::string Shortened(double size, std::string_view utf8, double width) const;

  int width() const { return width_; }
  int height() const { return height_; }

  // Empty if memory ran out.
  std::string Png() const;

 private:
  struct Surface;
  struct Font;
  const int width_, height_;
  std::unique_ptr<Surface> surface_;
  std::unique_ptr<Font> font_;
};

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_CANVAS_H_
