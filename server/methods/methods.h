// The methods that we answer, one file a family; MakeMethodTable puts them together for a registry.
//
// The registry is borrowed and must outlive the table. Handlers are safe to call from several
// threads at once.
#ifndef MPNANNY_SERVER_METHODS_METHODS_H_
#define MPNANNY_SERVER_METHODS_METHODS_H_

#include <string>

#include "server/dispatch/method_table.h"
#include "server/registry.h"

namespace mpnanny {

MethodTable MakeMethodTable(const Registry& registry);

void AddLifecycleMethods(const Registry& registry,
                         MethodTable& methods);  // server/discover, initialize, ping
void AddToolMethods(const Registry& registry, MethodTable& methods);      // tools/list, tools/call
void AddResourceMethods(const Registry& registry, MethodTable& methods);  // resources/…
void AddPromptMethods(const Registry& registry, MethodTable& methods);  // prompts/list, prompts/get
void AddCompletionMethods(const Registry& registry, MethodTable& methods);  // completion/complete
void AddLoggingMethods(MethodTable& methods);                               // logging/setLevel
// subscriptions/listen, resources/subscribe, resources/unsubscribe
void AddSubscriptionMethods(const Registry& registry, MethodTable& methods);

// Whether a resource of this URI may exist: it is a fixed one, or fits a family's template.
bool KnowsResource(const Registry& registry, const std::string& uri);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_METHODS_METHODS_H_
