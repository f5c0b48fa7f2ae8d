#include "engines/pictures/canvas.h"

#include <agg_conv_curve.h>
#include <agg_conv_dash.h>
#include <agg_conv_stroke.h>
#include <agg_path_storage.h>
#include <agg_pixfmt_rgb.h>
#include <agg_rasterizer_scanline_aa.h>
#include <agg_renderer_base.h>
#include <agg_renderer_scanline.h>
#include <agg_rendering_buffer.h>
#include <agg_scanline_u.h>
#include <stb_image_write.h>
#include <stb_truetype.h>

#include <cmath>

#include "base/text.h"

namespace mpnanny::pictures {
namespace {

constexpr char32_t kEllipsis = 0x2026, kUnknown = 0xFFFD;

// The next character, which `text` loses.
char32_t NextCharacter(std::string_view& text) {
  size_t bytes = 0;
  const auto character = DecodeUtf8(text, bytes);
  text.remove_prefix(bytes);
  return character.value_or(kUnknown);
}

agg::path_storage PathOf(const std::vector<Point>& points) {
  agg::path_storage path;
  bool drawing = false;
  for (const Point& point : points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
      drawing = false;  // a gap
    } else if (drawing) {
      path.line_to(point.x, point.y);
    } else {
      path.move_to(point.x, point.y);
      drawing = true;
    }
  }
  return path;
}

}  // namespace

struct Canvas::Surface {
  Surface(int width, int height)
      : pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 255),
        buffer(pixels.data(), static_cast<unsigned>(width), static_cast<unsigned>(height),
               width * 3),
        format(buffer),
        base(format) {
    rasterizer.clip_box(0, 0, width, height);
  }

  template <typename Source>
  void Draw(Source& source, Colour colour) {
    rasterizer.reset();
    rasterizer.add_path(source);
    agg::render_scanlines_aa_solid(
        rasterizer, scanline, base,
        agg::rgba8(colour.red, colour.green, colour.blue, colour.opacity));
  }

  std::vector<unsigned char> pixels;
  agg::rendering_buffer buffer;
  agg::pixfmt_rgb24 format;
  agg::renderer_base<agg::pixfmt_rgb24> base;
  agg::rasterizer_scanline_aa<> rasterizer;
  agg::scanline_u8 scanline;
};

struct Canvas::Font {
  explicit Font(std::string_view bytes) {
    const auto* const file = reinterpret_cast<const unsigned char*>(bytes.data());
    usable = !bytes.empty() && stbtt_InitFont(&info, file, 0) != 0;
  }
  int Advance(char32_t character) const {
    int advance = 0;
    stbtt_GetCodepointHMetrics(&info, static_cast<int>(character), &advance, nullptr);
    return advance;
  }
  double Scale(double size) const {
    return static_cast<double>(stbtt_ScaleForMappingEmToPixels(&info, static_cast<float>(size)));
  }

  stbtt_fontinfo info{};
  bool usable = false;
};

Canvas::Canvas(int width, int height, std::string_view font)
    : width_(width),
      height_(height),
      surface_(std::make_unique<Surface>(width, height)),
      font_(std::make_unique<Font>(font)) {}

Canvas::~Canvas() = default;

void Canvas::Fill(const Box& box, Colour colour) {
  Polygon({{box.left, box.top},
           {box.right, box.top},
           {box.right, box.bottom},
           {box.left, box.bottom}},
          colour);
}

void Canvas::Frame(const Box& box, Colour colour, double thickness) {
  // Through the middle of pixels, so that a line of one pixel is sharp.
  const double left = std::floor(box.left) + 0.5, right = std::floor(box.right) + 0.5;
  const double top = std::floor(box.top) + 0.5, bottom = std::floor(box.bottom) + 0.5;
  Line({{left, top}, {right, top}, {right, bottom}, {left, bottom}, {left, top}}, colour,
       thickness);
}

void Canvas::Polygon(const std::vector<Point>& corners, Colour colour) {
  agg::path_storage path = PathOf(corners);
  path.close_polygon();
  surface_->Draw(path, colour);
}

void Canvas::Line(const std::vector<Point>& points, Colour colour, double thickness, double dash) {
  agg::path_storage path = PathOf(points);
  if (dash > 0) {
    agg::conv_dash<agg::path_storage> dashes(path);
    dashes.add_dash(dash, dash);
    agg::conv_stroke<agg::conv_dash<agg::path_storage>> stroke(dashes);
    stroke.width(thickness);
    surface_->Draw(stroke, colour);
    return;
  }
  agg::conv_stroke<agg::path_storage> stroke(path);
  stroke.width(thickness);
  stroke.line_join(agg::round_join);
  surface_->Draw(stroke, colour);
}

void Canvas::Text(Point at, double size, std::string_view utf8, Colour colour, Align align,
                  bool upwards) {
  if (!font_->usable) return;
  const double scale = font_->Scale(size);
  double along = align == Align::kLeft     ? 0
                 : align == Align::kCentre ? -TextWidth(size, utf8) / 2
                                           : -TextWidth(size, utf8);
  agg::path_storage outlines;
  const auto place = [&](int x, int y) {
    const double right = along + x * scale, up = y * scale;
    return upwards ? Point{at.x - up, at.y - right} : Point{at.x + right, at.y - up};
  };
  while (!utf8.empty()) {
    const char32_t character = NextCharacter(utf8);
    stbtt_vertex* vertices = nullptr;
    const int count =
        stbtt_GetCodepointShape(&font_->info, static_cast<int>(character), &vertices);
    for (int i = 0; i < count; ++i) {
      const stbtt_vertex& vertex = vertices[i];
      const Point end = place(vertex.x, vertex.y);
      if (vertex.type == STBTT_vmove) {
        outlines.move_to(end.x, end.y);
      } else if (vertex.type == STBTT_vcurve) {
        const Point control = place(vertex.cx, vertex.cy);
        outlines.curve3(control.x, control.y, end.x, end.y);
      } else {
        outlines.line_to(end.x, end.y);
      }
    }
    stbtt_FreeShape(&font_->info, vertices);
    along += font_->Advance(character) * scale;
  }
  agg::conv_curve<agg::path_storage> curves(outlines);
  surface_->Draw(curves, colour);
}

double Canvas::TextWidth(double size, std::string_view utf8) const {
  if (!font_->usable) return 0;
  double units = 0;
  while (!utf8.empty()) units += font_->Advance(NextCharacter(utf8));
  return units * font_->Scale(size);
}

std::string Canvas::Shortened(double size, std::string_view utf8, double width) const {
  if (!font_->usable || TextWidth(size, utf8) <= width) return std::string(utf8);
  double left = width - font_->Advance(kEllipsis) * font_->Scale(size);
  std::string_view rest = utf8;
  while (!rest.empty()) {
    std::string_view after = rest;
    left -= font_->Advance(NextCharacter(after)) * font_->Scale(size);
    if (left < 0) break;
    rest = after;
  }
  return std::string(utf8.substr(0, utf8.size() - rest.size())) + "…";
}

std::string Canvas::Png() const {
  std::string file;
  const auto append = [](void* to, void* bytes, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(bytes),
                                          static_cast<size_t>(size));
  };
  const int written = stbi_write_png_to_func(append, &file, width_, height_, 3,
                                             surface_->pixels.data(), width_ * 3);
  if (written == 0) file.clear();
  return file;
}

}  // namespace mpnanny::pictures
