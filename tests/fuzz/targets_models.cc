// What models and texts come as: tokenizers, configurations, checkpoints, token shards, documents.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/check.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/dashboard_admission.h"
#include "model/document_reader.h"
#include "model/export.h"
#include "model/json_tokenizer.h"
#include "model/sentence_piece_library.h"
#include "model/stage_state.h"
#include "model/token_shard.h"
#include "sim/scenario_table.h"
#include "tests/fuzz/targets.h"

namespace skerry {
namespace {

using std::literals::operator""sv;

constexpr char kText[] = "an ebb, caf\xc3\xa9 \xf0\x9f\x8c\x8a  12345\r\n";

// ---- SentencePiece: a protocol buffer; its fields by hand, as the library has no small writer
// ----

void PutField(Bytes& into, int field, const Bytes& value) {
  SKERRY_CHECK(value.size() < 0x80, "a length of one byte");
  into.push_back(static_cast<uint8_t>(field << 3 | 2));
  into.push_back(static_cast<uint8_t>(value.size()));
  into.insert(into.end(), value.begin(), value.end());
}

// Message SentencePiece: 1 the piece, 2 its score, 3 its kind.
Bytes Piece(const std::string& piece, uint8_t kind) {
  Bytes message;
  PutField(message, 1, BytesOf(piece));
  message.insert(message.end(), {2 << 3 | 5, 0, 0, 0x80, 0xbf, 3 << 3, kind});  // score −1
  return message;
}

// Message ModelProto: 1 the pieces, 2 of training: 3 the kind of model, 4 the size.
Bytes SentencePieceModel(uint8_t kind) {
  constexpr uint8_t kNormal = 1, kUnknown = 2, kControl = 3;
  Bytes model;
  PutField(model, 1, Piece("<unk>", kUnknown));
  PutField(model, 1, Piece("<s>", kControl));
  PutField(model, 1, Piece("</s>", kControl));
  for (const char* piece : {"\xe2\x96\x81", "e", "b", "eb", "ebb",
                            "\xe2\x96\x81"
                            "a",
                            "a", "n"})
    PutField(model, 1, Piece(piece, kNormal));
  PutField(model, 2, {3 << 3, kind, 4 << 3, 11});
  PutField(model, 3, {});
  return model;
}

void RunSentencePiece(std::span<const uint8_t> input) {
  const auto library = SentencePieceLibrary::Load(TextIn(input));
  if (library == nullptr) return;
  const std::vector<int> tokens = library->Encode(kText);
  for (const int token : tokens)
    SKERRY_CHECK(token >= 0 && token < library->Size(), "a token of the vocabulary");
  library->Decode(tokens);
  library->IdOf("</s>");
  library->EndOfText();
}
std::vector<Bytes> SentencePieceSeeds() {
  constexpr uint8_t kUnigram = 1, kPairs = 2, kWords = 3, kCharacters = 4;
  std::vector<Bytes> seeds;
  for (const uint8_t kind : {kUnigram, kPairs, kWords, kCharacters}) {
    seeds.push_back(SentencePieceModel(kind));
    SKERRY_CHECK(SentencePieceLibrary::Load(TextIn(seeds.back())) != nullptr, "a seed is a model");
  }
  return seeds;
}

void RunJsonTokenizer(std::span<const uint8_t> input) {
  const auto tokenizer = ParseJsonTokenizer(TextIn(input), "");
  if (!tokenizer.ok()) return;
  const std::vector<int32_t> tokens = (*tokenizer)->Encode(kText);
  for (const int32_t token : tokens)
    SKERRY_CHECK(token >= 0 && token < (*tokenizer)->vocab(), "a token of the vocabulary");
  (*tokenizer)->Decode(tokens);
}
std::vector<Bytes> JsonTokenizerSeeds() {
  return {BytesOf(R"({"added_tokens":[{"id":5,"content":"</s>","special":true}],)"
                  R"("normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel",)"
                  R"("add_prefix_space":false,"use_regex":true},"decoder":{"type":"ByteLevel"},)"
                  R"("model":{"type":"BPE","vocab":{"e":0,"b":1,"eb":2,"ebb":3,"a":4,"</s>":5},)"
                  R"("merges":["e b","eb b"]}})"),
          BytesOf(R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend",)"
                  R"("prepend":"_"},{"type":"Replace","pattern":{"String":" "},)"
                  R"("content":"_"}]},"model":{"type":"BPE","unk_token":"<unk>",)"
                  R"("byte_fallback":true,"fuse_unk":true,"vocab":{"<unk>":0,"_":1,"a":2,"_a":3,)"
                  R"("<0x0A>":4},"merges":[["_","a"]]}})")};
}

void RunModelConfig(std::span<const uint8_t> input) {
  const auto config = ParseHuggingFaceConfig(TextIn(input));
  if (!config.ok()) return;
  const auto again = ParseHuggingFaceConfig(HuggingFaceConfigText(*config));
  SKERRY_CHECK(again.ok(), "what we write ourselves can be read");
}
std::vector<Bytes> ModelConfigSeeds() {
  TransformerConfig biased;
  biased.qkv_bias = true;
  return {BytesOf(HuggingFaceConfigText({})), BytesOf(HuggingFaceConfigText(biased))};
}

void RunManifest(std::span<const uint8_t> input) {
  const auto checkpoint = ParseManifest(TextIn(input));
  if (!checkpoint.ok()) return;
  const auto again = ParseManifest(ManifestText(*checkpoint));
  SKERRY_CHECK(again.ok() && ManifestText(*again) == ManifestText(*checkpoint),
               "and says the same when written");
}
std::vector<Bytes> ManifestSeeds() {
  Checkpoint checkpoint;
  checkpoint.generation = 3;
  checkpoint.run = std::string(32, 'a');
  checkpoint.stages = {{0, 2, true, 100, {Digest{}}}, {2, 4, false, 50, {Digest{}}}};
  return {BytesOf(ManifestText(checkpoint))};
}

// A donor's state of a stage; and one whose digest is right, which no mutation finds.
void RunStageState(std::span<const uint8_t> input) {
  constexpr int64_t kParameters = 2;
  if (const auto sizes = SizesOfState(input); sizes.ok())
    SKERRY_CHECK(StateBytes(sizes->parameters, sizes->moments) > kStateHeaderBytes, "no overflow");
  Bytes bytes(input.begin(), input.end());
  DecodeState(bytes, kParameters).IgnoreError();
  if (static_cast<int64_t>(bytes.size()) != StateBytes(kParameters, kParameters)) return;
  SealState(&bytes);
  DecodeState(bytes, kParameters).IgnoreError();
}
std::vector<Bytes> StageStateSeeds() {
  return {EncodeState({3, 8, {1, 2}, {3, 4}, {5, 6}, {7, 8}}),
          EncodeState({3, 8, {1, 2}, {3, 4}, {}, {}})};
}

void RunShard(std::span<const uint8_t> input) {
  const auto header = DecodeShardHeader(input);
  if (!header.ok()) return;
  SKERRY_CHECK(static_cast<int64_t>(input.size()) ==
                   kShardHeaderBytes + header->tokens * header->token_bytes,
               "a shard is as long as it says");
}
std::vector<Bytes> ShardSeeds() {
  Bytes shard = EncodeShardHeader({2, 3, Split::kTrain, 0});
  shard.resize(shard.size() + 6, 1);
  return {shard};
}

// JSON lines or not (1 byte) · a file, packed or not.
void RunDocuments(std::span<const uint8_t> input) {
  if (input.empty()) return;
  static const int file = memfd_create("skerry-fuzz", 0);
  const std::span<const uint8_t> bytes = input.subspan(1);
  SKERRY_CHECK(ftruncate(file, 0) == 0, "memory can be emptied");
  SKERRY_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
               "and written");
  ReadDocuments(
      "/proc/self/fd/" + std::to_string(file), {"text", (input[0] & 1) != 0}, [](double) {},
      [](std::string_view, bool) { return absl::OkStatus(); })
      .IgnoreError();
}
std::vector<Bytes> DocumentSeeds() {
  const std::string lines = "{\"text\":\"ebb\"}\n{\"text\":\"\\ud83c\\udf0a flow\"}\n";
  constexpr std::string_view kZipped =  // the same by gzip
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x4a"
      "\x4d\x4a\x52\xaa\xe5\xaa\x86\x71\x63\x4a\x53\x2c\x8c\x93\x81\x64\x9a\x41\xa2\x42"
      "\x5a\x4e\x7e\x39\x50\x12\x00\x30\xec\x66\x19\x2c\x00\x00\x00"sv;
  return {BytesOf("\x01" + lines), BytesOf("\x01" + std::string(kZipped)),
          BytesOf(std::string("\0plain \xff text", 13))};
}

// What a page of the dashboard asks for; and a table beside a scenario.
void RunAsked(std::span<const uint8_t> input) {
  const auto asked = nlohmann::json::parse(TextIn(input), nullptr, /*allow_exceptions=*/false);
  if (asked.is_discarded()) return;
  const auto command = OperatorCommand(asked, "/run");
  AdmissionPanel(asked);
  if (!command.ok()) return;
  SKERRY_CHECK(!command->empty() && command->front().front() != '-', "a subcommand comes first");
}
std::vector<Bytes> AskedSeeds() {
  return {BytesOf(R"({"do":"deny","node":"0badcafe","why":"it lied"})"),
          BytesOf(R"({"do":"revoke","ticket":"0a"})"),
          BytesOf(R"({"do":"policy","policy":"open"})"),
          BytesOf(R"({"do":"ticket","uses":3,"expires":"24h","asks":false})")};
}

void RunTable(std::span<const uint8_t> input) {
  const auto table = ParseDataTable(TextIn(input), "fuzz.csv");
  if (!table.ok()) return;
  for (const auto& row : table->rows) {
    SKERRY_CHECK(row.cells.size() == table->columns.size(), "rows are as wide as their header");
    for (size_t i = 0; i < row.cells.size(); ++i) table->Number(row, i, 0, 1e6).IgnoreError();
  }
}
std::vector<Bytes> TableSeeds() {
  return {BytesOf("# from, to\nfrom,to,rtt_ms\neast,west,80.5\nwest, north ,1e2\n")};
}

}  // namespace

std::vector<FuzzTarget> ModelTargets() {
  return {{"sentence_piece", RunSentencePiece, SentencePieceSeeds},
          {"json_tokenizer", RunJsonTokenizer, JsonTokenizerSeeds},
          {"model_config", RunModelConfig, ModelConfigSeeds},
          {"manifest", RunManifest, ManifestSeeds},
          {"stage_state", RunStageState, StageStateSeeds},
          {"shard", RunShard, ShardSeeds},
          {"documents", RunDocuments, DocumentSeeds},
          {"asked", RunAsked, AskedSeeds},
          {"data_table", RunTable, TableSeeds}};
}

}  // namespace skerry
