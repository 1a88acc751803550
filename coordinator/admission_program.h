// The operator's side of admission: commands that append orders to DIR/orders.jsonl, and the reader
// by which the coordinator that serves the directory takes them, within a second. An order given
// while nobody serves waits there. Who may write in the directory may give orders.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/admission.h"
#include "wire/ticket.h"

namespace CLI {
class App;
}

namespace skerry {

// "admission", "admit", "deny", "forget", "revoke", "evidence"; what they end with goes to
// `exit_code`.
void AddAdmissionCommands(CLI::App& app, int* exit_code);

// So that `admission` lists it.
absl::Status NoteTicket(const std::string& directory, const Ticket& ticket);

// Appends one line; a crash leaves a whole line or one that is skipped.
absl::Status AppendOrder(const std::string& directory, const AdmissionOrder& order);

// pause, resume, checkpoint.
void AddRunOrderCommands(CLI::App& app, int* exit_code);

// Takes what is new in the file, from its beginning. Not thread-safe.
class OrderReader {
 public:
  explicit OrderReader(std::string directory) : path_(std::move(directory) + "/orders.jsonl") {}
  // Whole lines that are orders; at most kOrdersAtOnce.
  std::vector<AdmissionOrder> Take();

  static constexpr size_t kOrdersAtOnce = 100;

 private:
  std::string path_;
  int64_t at_ = 0;  // bytes read
};

}  // namespace skerry
