#include "coordinator/checkpoint_program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "common/cli_program.h"
#include "common/round_clock.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/checkpoint_files.h"
#include "coordinator/directory_before_program.h"
#include "coordinator/guarded_files.h"
#include "coordinator/journal_store.h"
#include "coordinator/storage_program.h"
#include "model/export.h"
#include "model/file_io.h"
#include "model/gguf.h"
#include "model/tensor_files.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Listed {
  int64_t generation = 0;
  std::optional<Checkpoint> checkpoint;  // none: its manifest is damaged
  std::vector<std::string> problems;
};

absl::Status MustExist(const std::string& directory) {
  if (fs::exists(directory + "/checkpoints/generations")) return absl::OkStatus();
  SKERRY_RETURN_IF_ERROR(StoreOf(directory).status());  // no run at all
  return NotFound(
      "%s has no checkpoints; [checkpoint] every_rounds in run.toml says how often one is made "
      "[SK-checkpoint-none]",
      directory);
}

absl::StatusOr<std::vector<Listed>> List(const std::string& directory, bool reads) {
  SKERRY_RETURN_IF_ERROR(MustExist(directory));
  SKERRY_ASSIGN_OR_RETURN(const auto archive, OpenArchive(directory));
  SKERRY_ASSIGN_OR_RETURN(const auto generations, archive->Generations());
  std::vector<Listed> listed;
  ShareLine line("reading the checkpoints");
  for (const int64_t generation : generations) {
    line.Show(std::ssize(listed), std::ssize(generations));
    Listed one{generation, std::nullopt, {}};
    auto checkpoint = archive->Load(generation);
    if (checkpoint.ok()) {
      one.problems = archive->Problems(*checkpoint, reads);
      one.checkpoint = *std::move(checkpoint);
    } else {
      one.problems = {ErrorText(checkpoint.status())};
    }
    listed.push_back(std::move(one));
  }
  return listed;
}

void Print(const std::vector<Listed>& listed, bool reads) {
  std::printf("  generation  version      step        tokens        MB    new MB  %s\n",
              reads ? "verified" : "chunks");
  for (const Listed& one : listed) {
    const Checkpoint& of = one.checkpoint.value_or(Checkpoint());
    std::printf("  %10lld %8lld %9lld %13lld %9.1f %9.1f  %s\n",
                static_cast<long long>(one.generation), static_cast<long long>(of.round),
                static_cast<long long>(of.step), static_cast<long long>(of.tokens),
                static_cast<double>(of.bytes) * 1e-6, static_cast<double>(of.new_bytes) * 1e-6,
                !one.problems.empty() ? "NOT WHOLE"
                : reads               ? "whole"
                                      : "there");
    for (const std::string& problem : one.problems) std::printf("    %s\n", problem.c_str());
  }
}

Json ListJson(const std::vector<Listed>& listed) {
  Json all = Json::array();
  for (const Listed& one : listed) {
    const Checkpoint& of = one.checkpoint.value_or(Checkpoint());
    all.push_back({{"generation", one.generation},
                   {"round", of.round},
                   {"step", of.step},
                   {"tokens", of.tokens},
                   {"bytes", of.bytes},
                   {"new_bytes", of.new_bytes},
                   {"whole", one.problems.empty()},
                   {"problems", one.problems}});
  }
  return all;
}

absl::Status PrintCheckpoints(const std::string& directory, bool reads, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const auto listed, List(directory, reads));
  if (json) {
    std::cout << ListJson(listed).dump(2) << "\n";
  } else {
    Print(listed, reads);
  }
  for (const Listed& one : listed) {
    if (one.problems.empty()) continue;
    return DataLoss("%s [SK-checkpoint-damaged]", one.problems.front());
  }
  return absl::OkStatus();
}

struct ExportRequest {
  std::string directory, out, format = "huggingface", type;
  int64_t generation = 0;
};

constexpr char kFinal[] = "final";

// What is exported: of a checkpoint, or of a run that is finished the model that it ended with.
struct Exported {
  TransformerConfig model;
  ParameterStream stream;
  std::string label;  // in names of files: the step, or kFinal
};

absl::StatusOr<Exported> FinalModel(const std::string& place) {
  Exported found;
  SKERRY_ASSIGN_OR_RETURN(found.model, ReadHuggingFaceConfig(place));
  SKERRY_ASSIGN_OR_RETURN(auto opened, TensorFiles::Open(place));
  const std::shared_ptr<TensorFiles> files = std::move(opened);
  const auto layout = std::make_shared<ParameterLayout>(ParameterLayout::ForModel(found.model));
  SKERRY_RETURN_IF_ERROR(files->CheckAgainst(*layout));
  found.label = kFinal;
  found.stream = [files, layout](const auto& take) -> absl::Status {
    for (const TensorSlot& slot : layout->tensors()) {
      SKERRY_RETURN_IF_ERROR(files->ForEachPiece(slot, take));
    }
    return absl::OkStatus();
  };
  return found;
}

absl::StatusOr<Exported> ExportedOf(const ExportRequest& request) {
  const std::string place = request.directory + "/model";
  const bool is_finished =
      fs::exists(place + "/" + kWeightsFile) || fs::exists(place + "/" + kWeightsIndex);
  if (request.generation == 0 && is_finished) return FinalModel(place);
  SKERRY_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                          ChooseCheckpoint(request.directory, request.generation));
  SKERRY_ASSIGN_OR_RETURN(auto opened, OpenArchive(request.directory));
  const std::shared_ptr<CheckpointArchive> archive = std::move(opened);
  return Exported{
      checkpoint.model,
      [archive, checkpoint](const auto& take) { return archive->StreamBase(checkpoint, take); },
      std::to_string(checkpoint.step)};
}

std::string NameOf(const Exported& exported) {
  return exported.label == kFinal ? "the final model" : "the model of step " + exported.label;
}

// What somebody keeps there is not written over; an empty directory is nobody's.
absl::Status OutMustBeFree(const std::string& out) {
  std::error_code error;
  if (out.empty() || !fs::exists(fs::symlink_status(out, error))) return absl::OkStatus();
  if (fs::is_directory(out, error) && fs::is_empty(out, error)) return absl::OkStatus();
  return AlreadyExists("%s is there already; --out wants a name that is free", out);
}

absl::Status ExportGguf(const ExportRequest& request, const Exported& exported,
                        const std::string& tokenizer) {
  static const std::map<std::string, GgufType> kTypes = {{"f32", GgufType::kF32},
                                                         {"f16", GgufType::kF16},
                                                         {"bf16", GgufType::kBf16},
                                                         {"q8_0", GgufType::kQ8_0}};
  const std::string type = request.type.empty() ? "f16" : request.type;
  if (!kTypes.contains(type)) {
    return InvalidArgument("--type: gguf is written in f32, f16, bf16 or q8_0, not in %s", type);
  }
  const std::string out =
      request.out.empty()
          ? absl::StrFormat("%s/model-%s-%s.gguf", request.directory, exported.label, type)
          : request.out;
  const std::string name = fs::path(fs::absolute(request.directory)).filename().string();
  SKERRY_RETURN_IF_ERROR(
      WriteGguf(out, exported.model, exported.stream, {kTypes.at(type), name, tokenizer}));
  std::printf("%s: %s\n", out.c_str(), NameOf(exported).c_str());
  return absl::OkStatus();
}

absl::Status ExportCheckpoint(const ExportRequest& request) {
  SKERRY_RETURN_IF_ERROR(OutMustBeFree(request.out));
  SKERRY_ASSIGN_OR_RETURN(Exported exported, ExportedOf(request));
  const int64_t all = ParameterLayout::ForModel(exported.model).size();
  exported.stream = [stream = std::move(exported.stream), all](const auto& take) {
    ShareLine line("writing the model");
    int64_t done = 0;
    return stream([&](std::span<const float> values) {
      line.Show(done += std::ssize(values), all);
      return take(values);
    });
  };
  const std::string tokenizer = TokenizerOf(request.directory);
  if (request.format == "gguf") return ExportGguf(request, exported, tokenizer);
  static const std::map<std::string, StoredType> kTypes = {{"", StoredType::kF32},
                                                           {"f32", StoredType::kF32},
                                                           {"f16", StoredType::kF16},
                                                           {"bf16", StoredType::kBf16}};
  if (!kTypes.contains(request.type)) {
    return InvalidArgument("--type: safetensors are written in f32, f16 or bf16, not in %s",
                           request.type);
  }
  const std::string to = request.out.empty()
                             ? absl::StrFormat("%s/model-%s", request.directory, exported.label)
                             : request.out;
  ExportOptions options;
  options.type = kTypes.at(request.type);
  options.tokenizer = tokenizer;
  const DirectoryBefore before(to);
  const absl::Status written = WriteHuggingFace(to, exported.model, exported.stream, options);
  if (!written.ok()) before.Restore();
  SKERRY_RETURN_IF_ERROR(written);
  std::printf("%s: %s, %lld parameters\n", to.c_str(), NameOf(exported).c_str(),
              static_cast<long long>(ParameterLayout::ForModel(exported.model).size()));
  return absl::OkStatus();
}

int Ended(const absl::Status& status) {
  return EndedWith("skerry-coordinator", status);
}

absl::Status LinkOrCopy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::exists(to)) return absl::OkStatus();
  fs::create_hard_link(from, to, error);
  if (error) {
    error.clear();  // another file system
    fs::copy_file(from, to, error);
  }
  return error ? Unavailable("%s → %s: %s", from.string(), to.string(), error.message())
               : absl::OkStatus();
}

}  // namespace

std::string TokenizerOf(const std::string& run_directory) {
  const std::string place = run_directory + "/tokenizer";
  return fs::exists(place) ? place : "";
}

absl::StatusOr<std::unique_ptr<CheckpointArchive>> OpenArchive(const std::string& run_directory,
                                                               std::function<bool()> may_change) {
  SKERRY_ASSIGN_OR_RETURN(auto files, DiskCheckpointFiles::Open(run_directory + "/checkpoints"));
  if (may_change) files = std::make_unique<GuardedFiles>(std::move(files), std::move(may_change));
  return std::make_unique<CheckpointArchive>(std::move(files));
}

absl::StatusOr<Checkpoint> ChooseCheckpoint(const std::string& from, int64_t generation) {
  SKERRY_RETURN_IF_ERROR(MustExist(from));
  SKERRY_ASSIGN_OR_RETURN(const auto archive, OpenArchive(from));
  SKERRY_ASSIGN_OR_RETURN(const auto generations, archive->Generations());
  if (generations.empty()) return NotFound("%s has no checkpoint yet [SK-checkpoint-none]", from);
  if (generation > 0 && std::ranges::find(generations, generation) == generations.end()) {
    return NotFound("%s has no checkpoint %d, but %s [SK-checkpoint-none]", from, generation,
                    absl::StrJoin(generations, ", "));
  }
  auto loaded = archive->Load(generation > 0 ? generation : generations.back());
  const std::vector<std::string> problems =
      loaded.ok() ? archive->Problems(*loaded, true)
                  : std::vector<std::string>{ErrorText(loaded.status())};
  if (!problems.empty()) {
    return DataLoss(
        "%s; skerry-coordinator checkpoints %s --verify lists those that are whole "
        "[SK-checkpoint-damaged]",
        problems.front(), from);
  }
  return loaded;
}

absl::StatusOr<CheckpointRecord> RecordFor(const Checkpoint& checkpoint, const RunConfig& config) {
  if (checkpoint.model != config.model) {
    return InvalidArgument(
        "the checkpoint is of another [model]; leave that as it was [SK-checkpoint-fit]");
  }
  const int64_t tau = config.outer.inner_steps;
  if (checkpoint.step == 0) {  // an imported model: any rounds begin there
    return CheckpointRecord{checkpoint.generation, 0, 0, 0, checkpoint.bytes, 0};
  }
  if (tau <= 0 || checkpoint.step % tau != 0) {
    return InvalidArgument(
        "[outer] inner_steps: %d must divide the %d steps that the checkpoint holds "
        "[SK-checkpoint-fit]",
        tau, checkpoint.step);
  }
  if (checkpoint.step >= config.steps) {
    return InvalidArgument(
        "[run] steps: %d; the checkpoint holds %d already, want more [SK-checkpoint-fit]",
        config.steps, checkpoint.step);
  }
  const int64_t round = RoundClock(config).RoundsIn(checkpoint.step / tau);
  return CheckpointRecord{checkpoint.generation, round, checkpoint.step, checkpoint.tokens,
                          checkpoint.bytes,      0};
}

absl::Status CopyCheckpoint(const Checkpoint& checkpoint, const std::string& from,
                            const std::string& to) {
  SKERRY_RETURN_IF_ERROR(DiskCheckpointFiles::Open(to + "/checkpoints").status());
  std::set<std::string> names;
  for (const CheckpointStage& stage : checkpoint.stages) {
    for (const Digest& chunk : stage.chunks) names.insert("chunks/" + chunk.Hex());
  }
  for (const std::string& name : names) {
    SKERRY_RETURN_IF_ERROR(LinkOrCopy(from + "/checkpoints/" + name, to + "/checkpoints/" + name));
  }
  const std::string manifest =
      absl::StrFormat("/checkpoints/generations/%06d.json", checkpoint.generation);
  return LinkOrCopy(from + manifest, to + manifest);
}

void AddCheckpointCommands(CLI::App& app, int* exit_code) {
  struct Line {
    std::string directory, push, fetch;
    bool verify = false, json = false;
  };
  const auto line = std::make_shared<Line>();
  auto* list = app.add_subcommand("checkpoints", "list the checkpoints of a run");
  list->add_option("dir", line->directory, "of the run")->required();
  list->add_flag("--verify", line->verify, "read every chunk and check it");
  list->add_flag("--json", line->json, "for programs");
  auto* push =
      list->add_option("--push", line->push, "copy them into object storage: s3://BUCKET/PREFIX");
  list->add_option("--fetch", line->fetch, "copy the newest one from there into DIR")
      ->excludes(push);
  list->callback([line, exit_code] {
    if (!line->push.empty()) {
      *exit_code = Ended(PushCheckpoints(line->directory, line->push));
      return;
    }
    if (!line->fetch.empty()) {
      *exit_code = Ended(FetchCheckpoint(line->fetch, line->directory));
      return;
    }
    *exit_code = Ended(PrintCheckpoints(line->directory, line->verify, line->json));
  });
  const auto request = std::make_shared<ExportRequest>();
  auto* model = app.add_subcommand("export", "write the model of a checkpoint, also mid-run");
  model->add_option("dir", request->directory, "of the run")->required();
  model
      ->add_option("--checkpoint", request->generation,
                   "its generation; default: the model of a finished run, else the newest")
      ->check(CLI::PositiveNumber);
  model->add_option(
      "--out", request->out,
      "where to; default: DIR/model-STEP, or DIR/model-STEP-TYPE.gguf; a finished run's step is "
      "'final'");
  model->add_option("--format", request->format, "huggingface (a directory) or gguf (a file)")
      ->check(CLI::IsMember({"huggingface", "gguf"}))
      ->capture_default_str();
  model->add_option(
      "--type", request->type,
      "of its numbers: f32 (default of huggingface), f16 (of gguf), bf16, q8_0 (gguf)");
  model->callback([request, exit_code] { *exit_code = Ended(ExportCheckpoint(*request)); });
}

}  // namespace skerry
