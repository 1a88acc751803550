#include "coordinator/admission_program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "common/status.h"
#include "coordinator/admission_view.h"
#include "coordinator/border.h"
#include "coordinator/evidence.h"
#include "coordinator/leader_program.h"
#include "coordinator/run_directory.h"
#include "model/file_io.h"
#include "wire/identity.h"

namespace skerry {
namespace {

using Json = nlohmann::json;
using Does = AdmissionOrder::Does;

constexpr auto kAnswerWithin = std::chrono::seconds(5);
constexpr char kNothingDone[] = "nothing was done";  // as ops_orders.cc says it

std::string FreshId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += absl::StrFormat("%08x", random());
  return id;
}

AdmissionOrder NewOrder(Does does) {
  AdmissionOrder order;
  order.id = FreshId();
  order.does = does;
  order.at_unix = std::time(nullptr);
  return order;
}

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// What the coordinator says, after `from` bytes of its events, once it obeyed; null: not yet.
Json Obeyed(const std::string& events, int64_t from, const std::string& id) {
  std::ifstream in(events);
  in.seekg(from);
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"" + id + "\"") == std::string::npos) continue;
    const Json said = Json::parse(line, nullptr, false);
    if (said.is_object()) return said;
  }
  return {};
}

// Gives the order and says what came of it.
absl::Status Give(const OpenedRun& run, const AdmissionOrder& order, const std::string& done) {
  const std::string events = run.directory.File("events.jsonl");
  const int64_t from = SizeOf(events);
  SKERRY_RETURN_IF_ERROR(AppendOrder(run.directory.path, order));
  const Json leader = LeadershipJson(run.store);
  const auto deadline = std::chrono::steady_clock::now() + kAnswerWithin;
  const bool served = leader.value("leads", false);
  while (served && std::chrono::steady_clock::now() < deadline) {
    if (const Json said = Obeyed(events, from, order.id); said.is_object()) {
      const std::string came_of_it = said.value("came_of_it", done);
      if (came_of_it.starts_with(kNothingDone)) {
        return FailedPrecondition("%s", came_of_it);
      }
      std::printf("%s\n", came_of_it.c_str());
      return absl::OkStatus();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::printf("noted: %s as soon as the coordinator of %s %s\n", done.c_str(),
              run.directory.path.c_str(), served ? "answers" : "is started");
  return absl::OkStatus();
}

struct NodeOrder {
  std::string directory, name, why;
  bool anyway = false;
};

absl::Status GiveNodeOrder(const NodeOrder& request, Does does, const char* done) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(request.directory));
  SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
  AdmissionOrder order = NewOrder(does);
  SKERRY_ASSIGN_OR_RETURN(order.node, NodeNamed(state, request.name));
  order.why = request.why;
  const auto stage = does == Does::kDeny ? OnlyHeldBy(state, order.node) : std::nullopt;
  if (stage && !request.anyway) {
    return FailedPrecondition(
        "%s: %s alone holds stage %d, and there is no checkpoint: what the stage has learnt would "
        "be "
        "lost, and the run with it unless it can skip stages or has just begun. Keep one first "
        "with "
        "skerry-coordinator checkpoint %s, or say --anyway [SK-node-needed]",
        kNothingDone, order.node.Short(), *stage, request.directory);
  }
  return Give(run, order, absl::StrFormat("%s %s", order.node.Short(), done));
}

absl::Status GiveRevocation(const NodeOrder& request) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(request.directory));
  AdmissionOrder order = NewOrder(Does::kRevoke);
  if (request.name.starts_with("skerry1-")) {
    SKERRY_ASSIGN_OR_RETURN(const Ticket ticket, DecodeTicket(request.name));
    SKERRY_ASSIGN_OR_RETURN(const Identity self,
                            Identity::Load(run.directory.File("coordinator.key")));
    if (ticket.coordinator != self.id() || ticket.run != run.run) {
      return PermissionDenied("the ticket is for another run or coordinator [SK-ticket-other-run]");
    }
    order.ticket = ticket.IdHex();
  } else {
    SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
    SKERRY_ASSIGN_OR_RETURN(order.ticket, TicketNamed(state, request.name));
  }
  order.why = request.why;
  return Give(run, order,
              absl::StrFormat("ticket %s admits nobody any more", order.ticket.substr(0, 8)));
}

absl::Status PrintAdmission(const std::string& directory, const std::string& policy, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(directory));
  if (!policy.empty()) {
    AdmissionOrder order = NewOrder(Does::kPolicy);
    SKERRY_ASSIGN_OR_RETURN(order.policy, PolicyOf(policy));
    return Give(run, order, "admission is " + policy);
  }
  SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
  std::ifstream in(run.directory.File("status.json"));
  const Json status = Json::parse(in, nullptr, false);
  const Json admission = AdmissionJson(state, status, std::time(nullptr));
  std::cout << (json ? admission.dump(2) + "\n" : AdmissionText(admission, directory));
  return absl::OkStatus();
}

constexpr int64_t kShownBytesMax = int64_t{1} << 30;

absl::Status PrintEvidence(const NodeOrder& request, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(request.directory));
  SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
  SKERRY_ASSIGN_OR_RETURN(const NodeId node, NodeNamed(state, request.name));
  ProofChecks checks{run.config, {}, {}};
  checks.is_signed = [&](const NodeId& by, const auto& statement, const auto& signature) {
    return IsStatementOf(by, run.run, statement, signature);
  };
  checks.shown = [&](const SumCheck& check) -> std::optional<Bytes> {
    const auto bytes =
        ReadSmallFile(run.directory.File("proofs/" + ShownFileName(check)), kShownBytesMax);
    if (!bytes.ok()) return std::nullopt;
    return Bytes(bytes->begin(), bytes->end());
  };
  Evidence evidence(node, std::move(checks));
  absl::Status whole;
  SKERRY_RETURN_IF_ERROR(ReadJournal(run.directory, [&](const std::string& record) {
    if (whole.ok()) whole = evidence.Add(record);
  }));
  SKERRY_RETURN_IF_ERROR(whole);
  std::cout << (json ? evidence.Json().dump(2) + "\n" : EvidenceText(evidence.Json()));
  return absl::OkStatus();
}

absl::Status GiveRunOrder(const NodeOrder& request, Does does, const char* done) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(request.directory));
  if (!LeadershipJson(run.store).value("leads", false)) {
    SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
    if (state.finished) {
      return FailedPrecondition("%s: the run is finished [SK-run-over]", kNothingDone);
    }
  }
  AdmissionOrder order = NewOrder(does);
  order.why = request.why;
  return Give(run, order, done);
}

int Ended(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "skerry-coordinator: %s\n", ErrorText(status).c_str());
  return 1;
}

}  // namespace

absl::Status AppendOrder(const std::string& directory, const AdmissionOrder& order) {
  if (order.why.size() > kShortTextMax) {
    return InvalidArgument(
        "the reason is %d bytes long, and %d are kept and told; give a shorter one",
        order.why.size(), kShortTextMax);
  }
  const std::string path = directory + "/orders.jsonl";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return Unavailable("%s cannot be written", path);
  char last = '\n';
  const off_t size = lseek(file, 0, SEEK_END);
  if (size > 0 && pread(file, &last, 1, size - 1) != 1) last = '\n';
  const std::string line = (last == '\n' ? "" : "\n") + OrderText(order) + "\n";
  const bool written = line.size() <= kOrderBytesMax &&
                       write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       fsync(file) == 0;
  close(file);
  return written ? absl::OkStatus() : Unavailable("%s: the order could not be written", path);
}

absl::Status NoteTicket(const std::string& directory, const Ticket& ticket) {
  AdmissionOrder order = NewOrder(Does::kIssue);
  order.ticket = ticket.IdHex();
  order.uses = ticket.uses;
  order.expires_unix = ticket.expires_unix;
  order.asks = ticket.role == TicketRole::kGuest;
  return AppendOrder(directory, order);
}

std::vector<AdmissionOrder> OrderReader::Take() {
  std::vector<AdmissionOrder> orders;
  std::ifstream in(path_, std::ios::binary);
  in.seekg(at_);
  for (std::string line; orders.size() < kOrdersAtOnce && std::getline(in, line);) {
    if (in.eof()) break;  // no end of line yet: it is being written
    at_ += static_cast<int64_t>(line.size()) + 1;
    if (auto order = ParseOrder(line); order.ok()) {
      orders.push_back(*std::move(order));
    } else if (!line.empty()) {
      std::fprintf(stderr, "skerry-coordinator: %s: %s\n", path_.c_str(),
                   ErrorText(order.status()).c_str());
    }
  }
  return orders;
}

void AddRunOrderCommands(CLI::App& app, int* exit_code) {
  const auto line = std::make_shared<NodeOrder>();
  const auto add = [&](const char* name, const char* what, Does does, const char* done) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("dir", line->directory, "of the run")->required();
    if (does == Does::kPause) {
      command->add_option("--why", line->why, "kept, and shown to volunteers");
    }
    command->callback(
        [line, exit_code, does, done] { *exit_code = Ended(GiveRunOrder(*line, does, done)); });
  };
  add("pause", "stop training at a step soon; nodes stay, and nothing is lost", Does::kPause,
      "the run pauses");
  add("resume", "go on with a run that was paused", Does::kResume, "the run goes on");
  add("checkpoint", "keep a checkpoint of the next version that there is", Does::kCheckpoint,
      "a checkpoint is made");
}

void AddAdmissionCommands(CLI::App& app, int* exit_code) {
  struct Line {
    NodeOrder request;
    std::string policy;
    bool json = false;
  };
  const auto line = std::make_shared<Line>();
  auto* show = app.add_subcommand("admission", "who may join: tickets, who asks, who is out");
  show->add_option("dir", line->request.directory, "of the run")->required();
  show->add_option("--policy", line->policy,
                   "from now on: open (a ticket suffices), approve (you admit each), listed (only "
                   "whom you admitted)");
  show->add_flag("--json", line->json, "for programs");
  show->callback([line, exit_code] {
    *exit_code = Ended(PrintAdmission(line->request.directory, line->policy, line->json));
  });
  const auto add = [&](const char* name, const char* what, Does does, const char* done) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("dir", line->request.directory, "of the run")->required();
    command->add_option("node", line->request.name, "its name, or how it begins")->required();
    command->add_option("--why", line->request.why, "kept, and told to the node");
    if (does == Does::kDeny) {
      command->add_flag("--anyway", line->request.anyway,
                        "also a node that alone holds a stage of which there is no checkpoint");
    }
    command->callback([line, exit_code, does, done] {
      *exit_code = Ended(GiveNodeOrder(line->request, does, done));
    });
  };
  add("admit", "let a node in by name, also one that was put out", Does::kAdmit, "is admitted");
  add("deny", "keep a node out; if it is here, put it out", Does::kDeny, "is kept out");
  add("forget", "take back what was said of a node, and its ban", Does::kForget,
      "is judged by its ticket again");
  auto* evidence = app.add_subcommand("evidence", "what the journal holds against a node");
  evidence->add_option("dir", line->request.directory, "of the run")->required();
  evidence->add_option("node", line->request.name, "its name, or how it begins")->required();
  evidence->add_flag("--json", line->json, "for programs");
  evidence->callback(
      [line, exit_code] { *exit_code = Ended(PrintEvidence(line->request, line->json)); });
  auto* revoke = app.add_subcommand("revoke", "make a ticket void; who came with it stays");
  revoke->add_option("dir", line->request.directory, "of the run")->required();
  revoke->add_option("ticket", line->request.name, "its id, how it begins, or the ticket")
      ->required();
  revoke->add_option("--why", line->request.why, "kept, and told to who brings it");
  revoke->callback([line, exit_code] { *exit_code = Ended(GiveRevocation(line->request)); });
}

}  // namespace skerry
