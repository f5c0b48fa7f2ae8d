/* The code of the two stb headers, compiled once. PNGs are compressed by zlib: stb's own compressor makes
   them larger. */
#include <stdlib.h>
#include <zlib.h>

static unsigned char* Compress(unsigned char* bytes, int size, int* compressed_size, int quality) {
  uLongf room = compressBound((uLong)size);
  unsigned char* out = malloc(room);
  (void)quality;
  if (out && compress2(out, &room, bytes, (uLong)size, 9) != Z_OK) {
    free(out);
    out = NULL;
  }
  *compressed_size = out ? (int)room : 0;
  return out;
}

#define STBIW_ZLIB_COMPRESS Compress
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>
#define STB_TRUETYPE_IMPLEMENTATION
#include <stb_truetype.h>
