// The operator's part of the dashboard: who may join, who is out and why, and what can be done
// about it. Pure. What is done is a command of this program (admit, deny, forget, revoke, ticket,
// evidence, admission --policy), run as the operator would type it: one code path, one set of
// checks, and the web server needs no key.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace skerry {

// `admission` as AdmissionJson (coordinator/admission_view.h), which may come from strangers: every
// text is escaped. Buttons carry data-do, data-node and data-ticket for the page's script.
std::string AdmissionPanel(const nlohmann::json& admission);

// What stays as it is while the panel is replaced: the token's field, and forms.
std::string AdmissionForms();

// The arguments, without the program's name, of what a page asks for:
//   {"do": "admit" | "deny" | "forget", "node", "why"?}   {"do": "revoke", "ticket", "why"?}
//   {"do": "policy", "policy"}   {"do": "evidence", "node"}
//   {"do": "ticket", "uses", "expires", "asks", "endpoint"?}
// InvalidArgument: it is none of these. Values cannot become options of their own.
absl::StatusOr<std::vector<std::string>> OperatorCommand(const nlohmann::json& asked,
                                                         const std::string& directory);

}  // namespace skerry
