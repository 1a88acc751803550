// Which coordinators there are: one leads, the others stand by at addresses of their own.

#include "coordinator/coordinator_actor.h"

namespace skerry {

void CoordinatorActor::SetCoordinators(Context& context, std::vector<std::string> endpoints) {
  if (endpoints == options_.coordinators) return;
  options_.coordinators = std::move(endpoints);
  for (const NodeId& node : greeted_) {
    context.Send(node,
                 Welcome{options_.run, options_.config, options_.shards, options_.coordinators});
  }
}

}  // namespace skerry
