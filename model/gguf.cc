#include "model/gguf.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "common/check.h"
#include "common/status.h"
#include "kernels/rope_angles.h"
#include "model/file_io.h"
#include "model/gguf_bytes.h"
#include "model/gguf_tokenizer.h"
#include "model/number_formats.h"
#include "model/parameter_layout.h"

namespace skerry {
namespace {

constexpr int64_t kAlignment = 32;
constexpr uint32_t kVersion = 3;

// By GgufType: the numbers of ggml's tensor types and of its "file types".
constexpr uint32_t kTensorTypes[] = {0, 1, 30, 8};
constexpr uint32_t kFileTypes[] = {0, 1, 32, 7};

int64_t BytesOf(GgufType type, int64_t values) {
  switch (type) {
    case GgufType::kF32:
      return 4 * values;
    case GgufType::kF16:
    case GgufType::kBf16:
      return 2 * values;
    case GgufType::kQ8_0:
      return values / kQ8Values * int64_t{sizeof(Q8Block)};
  }
  return 0;
}

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Entry {
  const TensorSlot* slot = nullptr;
  std::string name;
  GgufType type = GgufType::kF32;
  int64_t heads = 0;  // of a matrix whose rows are put in the other order; 0: as they are
  int64_t offset = 0;
};

// "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight".
std::string NameOf(const std::string& name) {
  static const std::pair<const char*, const char*> kParts[] = {
      {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  const std::string kLayers = "model.layers.";
  SKERRY_CHECK(name.starts_with(kLayers));
  const size_t dot = name.find('.', kLayers.size());
  const std::string layer = name.substr(kLayers.size(), dot - kLayers.size());
  for (const auto& [from, to] : kParts) {
    const std::string part = name.substr(dot + 1);
    if (part.starts_with(from)) return "blk." + layer + "." + to + part.substr(part.rfind('.'));
  }
  SKERRY_CHECK(false, "a tensor of the layout has a name");
  return "";
}

std::vector<Entry> EntriesOf(const ParameterLayout& layout, const TransformerConfig& config,
                             GgufType wish, int64_t first_offset) {
  std::vector<Entry> entries;
  int64_t offset = first_offset;
  for (const TensorSlot& slot : layout.tensors()) {
    Entry entry = {&slot, NameOf(slot.name), slot.columns == 1 ? GgufType::kF32 : wish, 0, offset};
    if (entry.type == GgufType::kQ8_0 && slot.columns % kQ8Values != 0) {
      entry.type = GgufType::kF16;
    }
    if (!config.qkv_bias && slot.name.ends_with("q_proj.weight")) entry.heads = config.heads;
    if (!config.qkv_bias && slot.name.ends_with("k_proj.weight")) entry.heads = config.kv_heads;
    offset += Aligned(BytesOf(entry.type, slot.size()));
    entries.push_back(std::move(entry));
  }
  return entries;
}

void AddModelKeys(const TransformerConfig& config, const GgufOptions& options, GgufKeys& keys) {
  const std::string arch = config.qkv_bias ? "qwen2" : "llama";
  const auto size = [&](const char* key, int32_t value) {
    keys.Add(arch + "." + key, static_cast<uint32_t>(value));
  };
  keys.Add("general.architecture", arch);
  keys.Add("general.name", options.name);
  keys.Add("general.file_type", kFileTypes[static_cast<size_t>(options.type)]);
  keys.Add("general.quantization_version", uint32_t{2});
  size("context_length", std::max(config.positions, config.context));
  size("embedding_length", config.hidden);
  size("block_count", config.layers);
  size("feed_forward_length", config.ffn);
  size("attention.head_count", config.heads);
  size("attention.head_count_kv", config.kv_heads);
  size("rope.dimension_count", config.head_size());
  size("vocab_size", config.vocab);
  keys.Add(arch + ".attention.layer_norm_rms_epsilon", config.norm_epsilon);
  keys.Add(arch + ".rope.freq_base", config.rope_base);
  if (config.rope_scaling == RopeScaling::kLinear) {
    keys.Add(arch + ".rope.scaling.type", std::string("linear"));
    keys.Add(arch + ".rope.scaling.factor", config.rope_factor);
  }
}

// What each angle is divided by: so LLaMA 3's scaling is told.
std::vector<float> RopeDivisors(const TransformerConfig& config) {
  std::vector<float> divisors;
  if (config.rope_scaling != RopeScaling::kLlama3) return divisors;
  const RopeAngles stretched(config), plain(config.rope_base);
  for (int64_t i = 0; i < config.head_size() / 2; ++i) {
    divisors.push_back(static_cast<float>(plain.Frequency(i, config.head_size()) /
                                          stretched.Frequency(i, config.head_size())));
  }
  return divisors;
}

void DescribeTensor(const std::string& name, const std::vector<int64_t>& shape, uint32_t type,
                    int64_t offset, GgufBytes& out) {
  out.PutText(name);
  out.Put(static_cast<uint32_t>(shape.size()));
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    out.Put(static_cast<uint64_t>(*size));
  }
  out.Put(type);
  out.Put(static_cast<uint64_t>(offset));
}

// Rows of each head: row i and i + e/2 become neighbours.
std::vector<float> Interleaved(std::span<const float> matrix, const TensorSlot& slot,
                               int64_t heads) {
  const int64_t half = slot.rows / heads / 2;
  std::vector<float> out(matrix.size());
  for (int64_t row = 0; row < slot.rows; ++row) {
    const int64_t head = row / (2 * half), within = row % (2 * half);
    const int64_t from = head * 2 * half + within % 2 * half + within / 2;
    std::copy_n(matrix.begin() + from * slot.columns, slot.columns,
                out.begin() + row * slot.columns);
  }
  return out;
}

// Encodes the stream, tensor by tensor.
class DataWriter {
 public:
  DataWriter(AtomicFile& file, const std::vector<Entry>& entries)
      : file_(file), entries_(entries) {}

  absl::Status Take(std::span<const float> values) {
    while (!values.empty()) {
      SKERRY_CHECK(tensor_ < entries_.size(), "more than the layout has");
      const Entry& entry = entries_[tensor_];
      const auto part = static_cast<size_t>(
          std::min(entry.slot->size() - taken_, static_cast<int64_t>(values.size())));
      const auto piece = values.first(part);
      const bool finite =
          std::all_of(piece.begin(), piece.end(), [](float v) { return std::isfinite(v); });
      if (!finite) return InvalidArgument("tensor %s is not finite", entry.slot->name);
      pending_.insert(pending_.end(), piece.begin(), piece.end());
      taken_ += static_cast<int64_t>(part);
      values = values.subspan(part);
      SKERRY_RETURN_IF_ERROR(Drain(entry, taken_ == entry.slot->size()));
    }
    return absl::OkStatus();
  }
  bool is_done() const { return tensor_ == entries_.size(); }

 private:
  absl::Status Drain(const Entry& entry, bool is_end) {
    if (entry.heads > 0 && !is_end) return absl::OkStatus();
    if (entry.heads > 0) pending_ = Interleaved(pending_, *entry.slot, entry.heads);
    const size_t whole = pending_.size() / kQ8Values * kQ8Values;
    const size_t ready = is_end ? pending_.size() : whole;
    SKERRY_RETURN_IF_ERROR(Write(entry.type, std::span(pending_).first(ready)));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(ready));
    if (!is_end) return absl::OkStatus();
    const int64_t bytes = BytesOf(entry.type, entry.slot->size());
    taken_ = 0;
    ++tensor_;
    return file_.Write(std::string(static_cast<size_t>(Aligned(bytes) - bytes), '\0'));
  }

  absl::Status Write(GgufType type, std::span<const float> values) {
    encoded_.resize(static_cast<size_t>(BytesOf(type, static_cast<int64_t>(values.size()))));
    uint8_t* to = encoded_.data();
    if (type == GgufType::kF32) {
      if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
    } else if (type == GgufType::kQ8_0) {
      for (size_t i = 0; i < values.size(); i += kQ8Values) {
        const Q8Block block = ToQ8(values.subspan(i, kQ8Values));
        std::memcpy(to, &block, sizeof(block));
        to += sizeof(block);
      }
    } else {
      for (const float value : values) {
        const uint16_t bits = type == GgufType::kF16 ? ToF16Bits(value) : ToBf16Bits(value);
        std::memcpy(to, &bits, sizeof(bits));
        to += sizeof(bits);
      }
    }
    return file_.Write(std::span<const uint8_t>(encoded_));
  }

  AtomicFile& file_;
  const std::vector<Entry>& entries_;
  size_t tensor_ = 0;
  int64_t taken_ = 0;
  std::vector<float> pending_;
  std::vector<uint8_t> encoded_;
};

}  // namespace

absl::Status WriteGguf(const std::string& path, const TransformerConfig& config,
                       const ParameterStream& parameters, const GgufOptions& options) {
  if (config.ladder > 0) {
    return InvalidArgument(
        "GGUF has no architecture for [model] ladder = %d: read as a LLaMA the model would compute "
        "something else; write --format huggingface, which names its wiring",
        config.ladder);
  }
  const ParameterLayout layout = ParameterLayout::ForModel(config);
  GgufKeys keys;
  AddModelKeys(config, options, keys);
  SKERRY_RETURN_IF_ERROR(AddGgufTokenizer(options.tokenizer, config.vocab, keys));
  const std::vector<float> divisors = RopeDivisors(config);
  const auto divisor_count = static_cast<int64_t>(divisors.size());
  const auto entries = EntriesOf(layout, config, options.type, Aligned(4 * divisor_count));

  GgufBytes head;
  for (const char c : {'G', 'G', 'U', 'F'}) head.Put(c);
  head.Put(kVersion);
  head.Put<uint64_t>(entries.size() + (divisors.empty() ? 0 : 1));
  head.Put(keys.count());
  GgufBytes tensors;
  if (!divisors.empty()) DescribeTensor("rope_freqs.weight", {divisor_count}, 0, 0, tensors);
  for (const Entry& entry : entries) {
    std::vector<int64_t> shape = {entry.slot->rows, entry.slot->columns};
    if (entry.slot->columns == 1) shape.pop_back();
    DescribeTensor(entry.name, shape, kTensorTypes[static_cast<size_t>(entry.type)], entry.offset,
                   tensors);
  }
  const std::string whole_head = head.bytes() + keys.bytes() + tensors.bytes();
  const auto padding =
      Aligned(static_cast<int64_t>(whole_head.size())) - static_cast<int64_t>(whole_head.size());
  SKERRY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  SKERRY_RETURN_IF_ERROR(file->Write(whole_head + std::string(static_cast<size_t>(padding), '\0')));
  if (!divisors.empty()) {
    GgufBytes values;
    for (const float divisor : divisors) values.Put(divisor);
    values.Pad(kAlignment);
    SKERRY_RETURN_IF_ERROR(file->Write(values.bytes()));
  }
  DataWriter writer(*file, entries);
  SKERRY_RETURN_IF_ERROR(
      parameters([&](std::span<const float> values) { return writer.Take(values); }));
  SKERRY_CHECK(writer.is_done(), "less than the layout has");
  return file->Commit();
}

}  // namespace skerry
