#include "server/methods/methods.h"

namespace mpnanny {

MethodTable MakeMethodTable(const Registry& registry) {
  MethodTable methods;
  AddLifecycleMethods(registry, methods);
  AddSubscriptionMethods(registry, methods);
  if (registry.features.logging) AddLoggingMethods(methods);
  if (!registry.tools.empty()) AddToolMethods(registry, methods);
  if (registry.has_resources()) AddResourceMethods(registry, methods);
  if (registry.prompts) AddPromptMethods(registry, methods);
  if (!registry.resources.empty() || registry.prompts) AddCompletionMethods(registry, methods);
  return methods;
}

}  // namespace mpnanny
