// GGUF as a reader of its own finds it: keys, shapes, alignment, values. That the `gguf` package
// opens it is checked by tools/compare.
#include "model/gguf.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "common/status.h"
#include "model/number_formats.h"
#include "model/parameter_layout.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

TransformerConfig Small() {
  TransformerConfig config;
  config.vocab = 256;
  config.hidden = 32;
  config.layers = 1;
  config.heads = 2;
  config.kv_heads = 1;
  config.ffn = 40;
  config.context = 8;
  return config;
}

struct Found {
  std::vector<uint64_t> shape;
  uint32_t type = 0;
  uint64_t offset = 0;
};

// Reads what it was told to, in order.
class Reader {
 public:
  explicit Reader(const std::string& path) : bytes_(ReadFile(path)) {
    REQUIRE(bytes_.substr(0, 4) == "GGUF");
    at_ = 4;
    REQUIRE(Get<uint32_t>() == 3);
    const auto tensor_count = Get<uint64_t>(), keys = Get<uint64_t>();
    for (uint64_t i = 0; i < keys; ++i) {
      const std::string key = Text();
      texts[key] = Value(Get<uint32_t>());
    }
    for (uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = Text();
      Found found;
      found.shape.resize(Get<uint32_t>());
      for (uint64_t& size : found.shape) size = Get<uint64_t>();
      found.type = Get<uint32_t>();
      found.offset = Get<uint64_t>();
      CHECK(found.offset % 32 == 0);
      tensors[name] = found;
    }
    data_ = (at_ + 31) / 32 * 32;
  }
  template <typename T>
  std::vector<T> Data(const std::string& name, size_t count) {
    std::vector<T> values(count);
    REQUIRE(data_ + tensors.at(name).offset + count * sizeof(T) <= bytes_.size());
    std::memcpy(values.data(), bytes_.data() + data_ + tensors.at(name).offset, count * sizeof(T));
    return values;
  }
  std::map<std::string, std::string> texts;
  std::map<std::string, Found> tensors;

 private:
  template <typename T>
  T Get() {
    REQUIRE(at_ + sizeof(T) <= bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string Text() {
    const auto size = Get<uint64_t>();
    REQUIRE(at_ + size <= bytes_.size());
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::string Value(uint32_t type) {
    if (type == 4) return std::to_string(Get<uint32_t>());
    if (type == 5) return std::to_string(Get<int32_t>());
    if (type == 6) return std::to_string(Get<float>());
    if (type == 7) return std::to_string(Get<uint8_t>());
    if (type == 8) return Text();
    REQUIRE(type == 9);
    const auto of = Get<uint32_t>();
    const auto count = Get<uint64_t>();
    for (uint64_t i = 0; i < count; ++i) Value(of);
    return std::to_string(count);
  }
  std::string bytes_;
  size_t at_ = 0, data_ = 0;
};

std::vector<float> Counted(const TransformerConfig& config) {
  std::vector<float> values(static_cast<size_t>(ParameterLayout::ForModel(config).size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 2000) / 8;
  return values;
}

}  // namespace

TEST_CASE("Gguf: keys, shapes and values are the model's, q and k with neighbours for halves",
          "[model]") {
  const TransformerConfig config = Small();
  const auto parameters = Counted(config);
  const TemporaryDirectory directory;
  const std::string path = directory.Join("m.gguf");

  REQUIRE(WriteGguf(path, config, StreamOf(parameters), {GgufType::kF32, "test", ""}).ok());

  Reader file(path);
  CHECK(file.texts.at("general.architecture") == "llama");
  CHECK(file.texts.at("llama.attention.head_count_kv") == "1");
  CHECK(file.texts.at("tokenizer.ggml.tokens") == "256");
  CHECK(file.tensors.size() == 12);
  CHECK(file.tensors.at("blk.0.ffn_down.weight").shape == std::vector<uint64_t>{40, 32});
  const auto layout = ParameterLayout::ForModel(config);
  const auto row = [&](const char* name, int64_t r) {
    const TensorSlot& slot = *layout.Find(name);
    const auto from = parameters.begin() + slot.offset + r * slot.columns;
    return std::vector<float>(from, from + slot.columns);
  };
  // Of a head of 16: rows 0, 8, 1, 9, …
  const auto q = file.Data<float>("blk.0.attn_q.weight", 1024);
  CHECK(std::vector<float>(q.begin() + 32, q.begin() + 64) ==
        row("model.layers.0.self_attn.q_proj.weight", 8));
  CHECK(std::vector<float>(q.begin() + 18 * 32, q.begin() + 19 * 32) ==
        row("model.layers.0.self_attn.q_proj.weight", 17));
  const auto v = file.Data<float>("blk.0.attn_v.weight", 512);
  CHECK(std::vector<float>(v.begin() + 32, v.begin() + 64) ==
        row("model.layers.0.self_attn.v_proj.weight", 1));
}

TEST_CASE("Gguf: Q8_0 is within half a step, and rows that do not divide are F16", "[model]") {
  const TransformerConfig config = Small();
  const auto parameters = Counted(config);
  const TemporaryDirectory directory;
  const std::string path = directory.Join("m.gguf");

  REQUIRE(WriteGguf(path, config, StreamOf(parameters), {GgufType::kQ8_0, "test", ""}).ok());

  Reader file(path);
  CHECK(file.tensors.at("blk.0.attn_v.weight").type == 8);
  CHECK(file.tensors.at("blk.0.ffn_down.weight").type == 1);  // rows of 40
  CHECK(file.tensors.at("output_norm.weight").type == 0);
  const auto layout = ParameterLayout::ForModel(config);
  const TensorSlot& slot = *layout.Find("model.layers.0.self_attn.v_proj.weight");
  const auto blocks = file.Data<Q8Block>("blk.0.attn_v.weight", 16);
  for (size_t i = 0; i < 512; ++i) {
    const float scale = FromF16Bits(blocks[i / 32].scale);
    const float value = parameters[static_cast<size_t>(slot.offset) + i];
    CHECK(std::fabs(scale * blocks[i / 32].values[i % 32] - value) <= 0.51f * scale + 0.1f);
  }
}

TEST_CASE("Gguf: a model with a ladder is refused and no file is left", "[model][ladder][error]") {
  TransformerConfig config = Small();
  config.ladder = 1;
  const TemporaryDirectory directory;
  const auto status = WriteGguf(directory.Join("m.gguf"), config, StreamOf(Counted(config)),
                                {GgufType::kF16, "test", ""});
  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("GGUF has no architecture for [model] ladder = 1") == 0);
  CHECK(ErrorText(status).find("write --format huggingface") != std::string::npos);
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("Gguf: what is not finite is refused and no file is left", "[model][error]") {
  const TransformerConfig config = Small();
  auto parameters = Counted(config);
  parameters.back() = NAN;
  const TemporaryDirectory directory;
  const std::string path = directory.Join("m.gguf");

  const auto status = WriteGguf(path, config, StreamOf(parameters), {GgufType::kF16, "test", ""});

  CHECK(ErrorText(status).find("lm_head.weight") != std::string::npos);
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("Number formats: every f16 comes back from its float", "[model]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(FromF16Bits(half))) continue;
    REQUIRE(ToF16Bits(FromF16Bits(half)) == half);
    REQUIRE(ToBf16Bits(FromBf16Bits(half)) == half);
  }
  CHECK(ToF16Bits(1 + 0x1p-11f) == ToF16Bits(1.0f));  // a tie, to even
  CHECK(ToF16Bits(65520.0f) == 0x7c00);
}

}  // namespace skerry
