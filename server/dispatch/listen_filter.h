// Which notices a subscriptions/listen request asks for.
//
// Plain values and free functions.
#ifndef MPNANNY_SERVER_DISPATCH_LISTEN_FILTER_H_
#define MPNANNY_SERVER_DISPATCH_LISTEN_FILTER_H_

#include <set>
#include <string>

namespace mpnanny {

struct ListenFilter {
  bool tools_changed = false;
  bool prompts_changed = false;
  bool resources_changed = false;
  std::set<std::string> resource_uris;  // resources/updated of these
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_LISTEN_FILTER_H_
