// The product's registry: all tools, resource families and prompts, as MCP shows them.
//
// The data files and roots are borrowed and must outlive the registry.
#ifndef MPNANNY_SERVER_PRODUCT_H_
#define MPNANNY_SERVER_PRODUCT_H_

#include "base/data_files.h"
#include "base/files.h"
#include "server/registry.h"

namespace mpnanny {

// What the product's tools and resources run with.
struct ProductSettings {
  const AllowedRoots& roots;
  const DataFiles& data;
  bool allow_exec = false;
  bool allow_gpu = false;
  bool allow_weaker_sandbox = false;
};

Registry ProductRegistry(const ProductSettings& settings);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PRODUCT_H_
