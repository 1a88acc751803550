// skerry-node: what a volunteer runs to contribute a machine.

#include <CLI/CLI.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/cli_numbers_program.h"
#include "common/cli_program.h"
#include "common/status.h"
#include "kernels/cpu/omp_environment.h"
#include "node/bench_program.h"
#include "node/desk_program.h"
#include "node/device_choice.h"
#include "node/doctor_program.h"
#include "node/join_program.h"
#include "node/model_program.h"
#include "node/ring_program.h"

namespace skerry {
namespace {

int Ended(const absl::Status& status) {
  return EndedWith("skerry-node", status);
}

const std::vector<CliExample> kExamples = {
    {"join", "join skerry1-…", "contribute this machine; Ctrl-C leaves"},
    {"join", "join skerry1-… --up-mbit 5 --hours 22-08", "at night, and with little of the line"},
    {"join", "join skerry1-… --devices all", "with all GPUs of this machine, as one node"},
    {"limit", "limit --up-mbit 2", "from now on; a running node follows at once"},
    {"status", "status", "what the node of this home is doing"},
    {"status", "status --json", "the same, for programs"},
    {"pause", "pause", "until 'skerry-node resume', also in another terminal"},
    {"resume", "resume", "the node joins its run again, and is given a place"},
    {"leave", "leave", "from another terminal, or a script"},
    {"doctor", "doctor --ticket skerry1-…",
     "whether this machine can take part, and what is wrong"},
    {"bench", "bench --json", "how fast it is, for programs"},
    {"ring", "ring --members 4", "how fast four machines of a cluster sum, and whether rightly"},
    {"evaluate", "evaluate --model model --text book.txt --stages 4",
     "perplexity of a text, with every stage and every share of the stages left out"},
    {"logits", "logits --model model --tokens 1,2,3", "to compare with another program's"},
    {"reference", "reference --config run/run.toml --data run/data",
     "what the run would come to on one machine, nothing skipped"},
    {"help", "help SK-ticket-expired", "why that comes, and what to do"},
    {"generate", "generate --model model --prompt 'Once upon'", "text from a trained model"},
};

template <typename Value>
std::string KnownName(const std::map<std::string, Value>& names, Value wanted) {
  for (const auto& [name, value] : names) {
    if (value == wanted) return name;
  }
  return "";
}

void AddDevice(CLI::App& command, DeviceWish* wish) {
  static const std::map<std::string, DeviceWish> kWishes = {
      {"auto", DeviceWish::kAuto}, {"cpu", DeviceWish::kCpu}, {"cuda", DeviceWish::kCuda}};
  command.add_option("--device", *wish, "auto: a GPU where one works; cpu; cuda")
      ->transform(CLI::CheckedTransformer(kWishes, CLI::ignore_case).description(""))
      ->type_name("auto|cpu|cuda")
      ->default_str(KnownName(kWishes, *wish));
}

// Several instead of one, and what they share out.
void AddDevices(CLI::App& command, std::string* devices, DeviceSplit* split = nullptr) {
  command
      .add_option("--devices", *devices,
                  "several as one: all, or a list as cuda:0,cuda:1; cpu,cpu cuts the processor")
      ->excludes("--device");
  if (split == nullptr) return;
  static const std::map<std::string, DeviceSplit> kSplits = {{"auto", DeviceSplit::kEither},
                                                             {"sequences", DeviceSplit::kSequences},
                                                             {"tensors", DeviceSplit::kTensors}};
  std::set<std::string> words = {"sequences", "tensors"};
  std::string text =
      "what several devices share out: sequences, each with the whole stage; or tensors, each with "
      "a part of every matrix, where no device has room for a layer or the vocabulary";
  if (*split == DeviceSplit::kEither) {
    words.insert("auto");
    text += "; auto: sequences, and tensors for a stage that has no room otherwise";
  }
  command
      .add_option_function<std::string>(
          "--split", [split](const std::string& word) { *split = kSplits.at(word); }, text)
      ->check(CLI::IsMember(words))
      ->default_str(KnownName(kSplits, *split));
}

void AddLimits(CLI::App& command, LimitChange* limits) {
  command.add_option("--up-mbit", limits->up_mbit, "send at most so many Mbit/s; 0: no limit")
      ->check(NumberIn(0, 1e6));
  command.add_option("--down-mbit", limits->down_mbit, "receive at most so many; 0: no limit")
      ->check(NumberIn(0, 1e6));
  command.add_option("--daily-gb", limits->daily_gb, "GB a day, up and down; 0: no limit")
      ->check(NumberIn(0, 1e6));
  command.add_option("--hours", limits->hours, "only then, as 22-08 or 22:30-08:00; or: always");
  static const std::map<std::string, bool> kSwitch = {{"on", true}, {"off", false}};
  command
      .add_option("--yield-gpu", limits->yields_gpu,
                  "on: it rests while another program computes on this machine's NVIDIA GPUs")
      ->transform(CLI::CheckedTransformer(kSwitch, CLI::ignore_case).description(""))
      ->type_name("on|off");
}

// limit: options live as long as the parse.
struct LimitCommand {
  std::string home;
  LimitChange change;
  void AddTo(CLI::App& app, int& exit_code) {
    auto* command = app.add_subcommand(
        "limit", "what a node may use; a running node follows at once. Without options: shows it");
    command->add_option("--home", home, "as of join");
    AddLimits(*command, &change);
    command->callback([&] { exit_code = Ended(ChangeLimits(home, change)); });
  }
};

// doctor: likewise.
struct DoctorCommand {
  DoctorOptions options;
  void AddTo(CLI::App& app, int& exit_code) {
    auto* command =
        app.add_subcommand("doctor", "whether this machine can take part, and what is in the way");
    command->add_option("--threads", options.threads, "as of join; 0: all")
        ->capture_default_str()
        ->check(CLI::Range(0, 256));
    command->add_option("--devices", options.devices, "as of join");
    command->add_option("--spill", options.spill, "as of join: measures what that disk is worth");
    command->add_option("--home", options.home, "as of join");
    command->add_option("--ticket", options.ticket, "checks it, and the way to its coordinator");
    command->add_flag("--json", options.json, "for programs");
    command->callback([&] {
      options.home = NodeHome(options.home);
      exit_code = Doctor(options);
    });
  }
};

// ring: likewise.
struct RingCommand {
  RingOptions options;
  void AddTo(CLI::App& app, int& exit_code) {
    auto* command = app.add_subcommand(
        "ring",
        "tries the ring of machines that sums inside a cluster: without a ticket this one "
        "is the host, and prints one for the others");
    command->add_option("ticket", options.ticket, "as the host printed it");
    command->add_option("--members", options.members, "of the host's ring, itself included")
        ->capture_default_str()
        ->check(CLI::Range(2, 64));
    command
        ->add_option("--operation", options.operation,
                     "all-reduce, reduce-scatter, all-gather, broadcast; all")
        ->capture_default_str();
    command->add_option("--mib", options.mib, "of values in one operation")
        ->capture_default_str()
        ->check(NumberIn(0.001, 16384));
    command->add_option("--times", options.times, "each operation is timed")
        ->capture_default_str()
        ->check(CLI::Range(1, 10'000));
    command->add_option("--listen", options.listen, "as of join")->capture_default_str();
    command->add_option("--advertise", options.advertise,
                        "where others dial this machine, as tcp://10.0.0.5:7001");
    command->add_flag("--json", options.json, "for programs");
    command->callback([&] { exit_code = Ended(TryRing(options)); });
  }
};

// evaluate, logits, generate, reference: options live as long as the parse.
struct ModelTools {
  EvaluateOptions evaluate;
  LogitsOptions logits;
  GenerateOptions generate;
  ReferenceOptions reference;
  void AddTo(CLI::App& app, int& exit_code);
};

void ModelTools::AddTo(CLI::App& app, int& exit_code) {
  auto* evaluate_command = app.add_subcommand("evaluate", "loss of a model on held-out text");
  evaluate_command->alias("eval");
  evaluate_command->add_option("--model", evaluate.model, "a Hugging Face directory");
  evaluate_command->add_flag("--initial", evaluate.initial, "the run's model before training");
  evaluate_command->add_option("--config", evaluate.config, "run.toml");
  auto* data = evaluate_command->add_option("--data", evaluate.data, "token shards");
  evaluate_command
      ->add_option("--text", evaluate.text, "or: a file of text (plain, .gz, .zst, JSON lines)")
      ->excludes(data);
  evaluate_command->add_option("--windows", evaluate.windows_max, "at most so many sequences")
      ->capture_default_str();
  evaluate_command->add_option("--context", evaluate.context,
                               "tokens a sequence; default: the model's, at most 1024");
  evaluate_command->add_option("--stages", evaluate.stages,
                               "cut into so many, and say what it is worth without some of them");
  evaluate_command->add_option("--seed", evaluate.seed, "of which")->capture_default_str();
  AddDevice(*evaluate_command, &evaluate.device);
  evaluate_command->add_option("--threads", evaluate.threads, "of the processor; 0: all")
      ->capture_default_str();
  evaluate_command->add_flag("--json", evaluate.json, "for programs");
  evaluate_command->callback([&] { exit_code = Ended(EvaluateModel(evaluate)); });

  auto* logits_command = app.add_subcommand("logits", "print a model's logits as JSON");
  logits_command->add_option("--model", logits.model, "a Hugging Face directory")->required();
  logits_command->add_option("--tokens", logits.tokens, "numbers, separated by commas")
      ->delimiter(',')
      ->required();
  logits_command->callback([&] { exit_code = Ended(PrintLogits(logits)); });

  auto* generate_command = app.add_subcommand("generate", "write text with a model");
  generate_command->add_option("--model", generate.model, "a Hugging Face directory")->required();
  generate_command->add_option("--prompt", generate.prompt, "how the text begins")->required();
  generate_command->add_option("--tokens", generate.tokens, "to write")->capture_default_str();
  generate_command->add_option("--context", generate.context,
                               "tokens that it sees; default: the model's, at most 1024");
  generate_command
      ->add_option("--temperature", generate.temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->check(NumberIn(0, 1000));
  generate_command->add_option("--seed", generate.seed, "same seed, same text")
      ->capture_default_str();
  AddDevice(*generate_command, &generate.device);
  generate_command->callback([&] { exit_code = Ended(GenerateFromModel(generate)); });

  auto* reference_command =
      app.add_subcommand("reference", "train a run's model in this one process, for comparison");
  reference_command->add_option("--config", reference.config, "run.toml")->required();
  reference_command->add_option("--data", reference.data, "token shards")->required();
  reference_command->add_option("--from", reference.from, "begin with this Hugging Face model");
  reference_command->add_option("--out", reference.out, "write the model here");
  AddDevice(*reference_command, &reference.device);
  AddDevices(*reference_command, &reference.devices, &reference.split);
  reference_command->add_option("--threads", reference.threads, "of the processor; 0: all")
      ->capture_default_str();
  reference_command->add_flag("--json", reference.json, "for programs");
  reference_command->callback([&] { exit_code = Ended(TrainReference(reference)); });
}

void AddJoinOptions(CLI::App& command, JoinOptions* join) {
  command.add_option("ticket", join->ticket)->envname("SKERRY_TICKET")->required();
  command.add_option("--home", join->home, "identity and data; default ~/.local/share/skerry");
  command
      .add_option("--listen", join->listen, "where peers reach this node; commas between several")
      ->capture_default_str();
  command.add_option("--advertise", join->advertise,
                     "what peers are told; default: what the coordinator finds");
  command.add_option("--metrics", join->metrics,
                     "answer Prometheus at http://HOST:PORT/metrics, as in 127.0.0.1:9464");
  command.add_flag("--relay", join->relay,
                   "forward for nodes that cannot reach each other (sealed; needs a port "
                   "that others can dial)");
  command.add_option("--region", join->region,
                     "shown to people, and a place on the map if it is a city, a country, a "
                     "cloud's region or 47.4,8.5");
  AddDevice(command, &join->device);
  AddDevices(command, &join->devices, &join->split);
  command.add_flag("--nccl", join->nccl,
                   "sums of the node's cluster go over NCCL, from GPU to GPU, where all its "
                   "members say so. They are not sealed then: for a network that you trust");
  command.add_option("--threads", join->threads, "processor threads for training; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command
      .add_option("--memory", join->memory_gib,
                  "GiB that the run may use at most; 0: all that is free now")
      ->capture_default_str()
      ->check(NumberIn(0, 1e6));
  command
      .add_option("--host-memory", join->host_memory_gib,
                  "with GPUs: the same of the computer's own memory; 0: their share")
      ->capture_default_str()
      ->check(NumberIn(0, 1e6));
  command.add_option("--spill", join->spill,
                     "a directory on a disk for activations that memory has no room for. Without "
                     "it none is written to; with it an SSD wears: as long as this node trains it "
                     "may write hundreds of MB a second");
  command
      .add_option("--spill-space", join->spill_gib,
                  "GiB of it at most; 0: half of what is free there")
      ->capture_default_str()
      ->check(NumberIn(0, 1e6));
  command
      .add_option("--cache", join->cache.gib,
                  "GiB of the disk for training data of earlier runs; what the run needs it has")
      ->capture_default_str()
      ->check(NumberIn(0, 1e6));
  command.add_option("--cache-dir", join->cache.directory,
                     "where training data is kept; default: in the home");
  command.add_flag("--no-traces", join->no_traces,
                   "do not tell the coordinator when the device did what in a step of each "
                   "round; explain and the dashboard then say less");
  command
      .add_option("--log-format", join->log_format,
                  "text, or json: one object a line, named as OpenTelemetry's, and no screen")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_option("--shape", join->shape_file, "imitate this network (wan.toml)");
}

int Run(int argc, char** argv) {
  CLI::App app{"skerry-node: contribute this machine to a training run", "skerry-node"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "skerry-node 0.1.0, protocol 1");
  app.footer(
      "exit codes: 0 done or left, 1 failed, 2 refused by the coordinator, 100 and above: the "
      "command line is wrong, 130 interrupted");
  int exit_code = 0;

  JoinOptions join;
  auto* join_command =
      app.add_subcommand("join", "take part in the run of a ticket; Ctrl-C leaves");
  AddJoinOptions(*join_command, &join);
  LimitCommand limits;
  limits.AddTo(app, exit_code);
  AddLimits(*join_command, &join.limits);
  join_command->callback([&] { exit_code = Join(join); });

  DoctorCommand doctor;
  doctor.AddTo(app, exit_code);
  RingCommand ring;
  ring.AddTo(app, exit_code);
  AddDeskCommands(app, &exit_code);

  BenchOptions machine;
  auto* bench =
      app.add_subcommand("bench", "how fast this machine is in every operation of training");
  AddDevice(*bench, &machine.device);
  AddDevices(*bench, &machine.devices);
  bench->add_option("--threads", machine.threads, "0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  bench->add_flag("--json", machine.json, "for programs");
  bench->callback([&] { exit_code = Ended(BenchMachine(machine)); });

  ModelTools tools;
  tools.AddTo(app, exit_code);
  return RunCommandLine(app, argc, argv, kExamples, &exit_code);
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  skerry::UsePassiveWaiting(argc, argv);
  return skerry::Run(argc, argv);
}
