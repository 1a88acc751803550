#include "sim/step_share.h"

#include <nlohmann/json.hpp>

namespace skerry {

void StepShare::OnEvent(Instant, const NodeId&, const std::string& kind,
                        const std::string& fields) {
  if (kind != "step") return;
  const auto step = nlohmann::json::parse("{" + fields + "}", nullptr, false).value("step", -1);
  on_share_(static_cast<double>(step + 1) / static_cast<double>(steps_));
}

}  // namespace skerry
