// What shadow steps found, as a block of the summary in its three forms.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_SHADOW_BLOCK_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_SHADOW_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json.h"
#include "engines/diagnosis/summary/summary.h"

namespace mpnanny::summary {

// True if the run has any shadow data.
bool HasShadow(const ShadowSummary& shadow);

// At most about `bytes`: findings are what is cut; `total` counts all. null: no shadow step.
Json ShadowJson(const ShadowSummary& shadow, size_t bytes);
Json ShadowSchema();
// "Shadow steps: …" and a line a finding; "" without shadow data.
std::string ShadowText(const ShadowSummary& shadow, int64_t world_size, size_t bytes);
// A section of the page, from what ShadowJson() made; "" for null.
std::string ShadowMarkdown(const Json& shadow);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_SHADOW_BLOCK_H_
