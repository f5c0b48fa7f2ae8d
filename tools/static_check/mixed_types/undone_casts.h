// FP32 that code asks for and autocast takes back: casts in front of a product, and front ends that
// make a spectrum of a signal.
//
// Free function without state; it borrows the FileFacts.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNDONE_CASTS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNDONE_CASTS_H_

#include <vector>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/mixed_types/unlike_types.h"

namespace mpnanny::static_check {

// sparse @ x.float(); x = x.float() and matmul(normalize(x), w); self.fbank(waveform).
std::vector<UnlikeWrite> FindUndoneCasts(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_MIXED_TYPES_UNDONE_CASTS_H_
