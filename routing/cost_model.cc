#include "routing/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "routing/delta_bits.h"

namespace skerry {

int64_t LayerParameters(const TransformerConfig& model) {
  const int64_t hidden = model.hidden;
  const int64_t kv = int64_t{model.kv_heads} * model.head_size();
  const int64_t attention = 2 * hidden * hidden + 2 * hidden * kv;
  const int64_t feed_forward = 3 * hidden * model.ffn;
  const int64_t biases = model.qkv_bias ? hidden + 2 * kv : 0;
  return attention + biases + feed_forward + 2 * hidden;
}

int64_t EndsParameters(const TransformerConfig& model) {
  const int64_t table = int64_t{model.vocab} * model.hidden;
  return (model.tied_head ? 1 : 2) * table + model.hidden;
}

int64_t StageParameters(const TransformerConfig& model, int32_t layers, bool holds_ends) {
  return layers * LayerParameters(model) + (holds_ends ? EndsParameters(model) : 0);
}

std::vector<int64_t> StageBlocks(const TransformerConfig& model, int32_t layers, bool holds_ends) {
  std::vector<int64_t> blocks(static_cast<size_t>(layers), LayerParameters(model));
  if (!holds_ends) return blocks;
  const int64_t table = int64_t{model.vocab} * model.hidden;
  blocks.insert(blocks.begin(), table);
  blocks.push_back(EndsParameters(model) - table);
  return blocks;
}

int64_t MicrobatchTokens(const RunConfig& config) {
  return int64_t{config.pipeline.sequences_per_microbatch} * config.model.context;
}

int64_t BoundaryBytes(const RunConfig& config) {
  return MicrobatchTokens(config) * config.model.hidden * int64_t{sizeof(float)};
}

double LayerForwardFlops(const RunConfig& config) {
  const auto tokens = static_cast<double>(MicrobatchTokens(config));
  const auto weights = static_cast<double>(LayerParameters(config.model));
  const double attention = 2.0 * config.model.context * config.model.hidden;
  return tokens * (2.0 * weights + attention);
}

double LayerRepeatShare(const RunConfig& config) {
  const TransformerConfig& model = config.model;
  const double rows = 2.0 * static_cast<double>(MicrobatchTokens(config)) * model.hidden;
  const double down = rows * model.ffn, o = model.ladder > 0 ? rows * model.hidden : 0;
  return 1 - (down + o) / LayerForwardFlops(config);
}

double LayerOptimizerFlops(const RunConfig& config) {
  if (config.inner.optimizer != InnerOptimizer::kMuon) return 0;
  const auto products = [](int64_t rows, int64_t columns) {
    const auto m = static_cast<double>(std::min(rows, columns));
    const auto n = static_cast<double>(std::max(rows, columns));
    return 5 * (4 * m * m * n + 2 * m * m * m);
  };
  const int64_t d = config.model.hidden;
  const int64_t kv = int64_t{config.model.kv_heads} * config.model.head_size();
  return 2 * products(d, d) + 2 * products(kv, d) + 3 * products(config.model.ffn, d);
}

double LossFlops(const RunConfig& config) {
  const auto tokens = static_cast<double>(MicrobatchTokens(config));
  const double forward = 2.0 * tokens * config.model.hidden * config.model.vocab;
  return (1.0 + kBackwardPerForward) * forward;
}

double LayerWork(const RunConfig& config) {
  return (1.0 + kBackwardPerForward) * LayerForwardFlops(config);
}

double HeadWork(const RunConfig& config) {
  return LossFlops(config);
}

int64_t DeltaBytes(const RunConfig& config, int32_t layers, bool holds_ends) {
  return DeltaBytesOf(config, StageParameters(config.model, layers, holds_ends));
}

int64_t DeltaBytesOf(const RunConfig& config, int64_t parameters) {
  const double bits = DeltaBitsOf(config.outer) * static_cast<double>(parameters);
  return static_cast<int64_t>(std::ceil(bits / 8));
}

double ComputeSeconds(double flops, double gflops) {
  return flops / (gflops * 1e9);
}

double TransferSeconds(const LinkEstimate& link, int64_t bytes) {
  if (!link.usable()) return std::numeric_limits<double>::infinity();
  return link.rtt_s / 2 + static_cast<double>(bytes) / link.bytes_per_s;
}

DeviceProfile ComputingFor(const RunConfig& config, DeviceProfile device) {
  if (config.inner.compute == InnerCompute::kBfloat16 && device.bf16_gflops > 0) {
    device.gflops = device.bf16_gflops;
  }
  return device;
}

std::vector<double> SpeedsOf(const std::vector<NodeId>& nodes,
                             const std::map<NodeId, DeviceProfile>& devices) {
  const auto sort_median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? kUnmeasuredGflops : values[(values.size() - 1) / 2];
  };
  struct Kind {
    std::vector<double> readings;
    double median = 0;
  };
  std::vector<double> measured, speeds;
  std::map<std::string_view, Kind> kinds;
  std::vector<const Kind*> kind_of;  // of those not known by themselves
  for (const NodeId& node : nodes) {
    const auto it = devices.find(node);
    speeds.push_back(it == devices.end() ? 0 : it->second.gflops);
    kind_of.push_back(nullptr);
    if (!(speeds.back() > 0)) continue;
    measured.push_back(speeds.back());
    if (it->second.name.empty()) continue;
    Kind& kind = kinds[it->second.name];
    kind.readings.push_back(speeds.back());
    kind_of.back() = &kind;
  }
  for (auto& [name, kind] : kinds) kind.median = sort_median(kind.readings);
  const double usual = sort_median(measured);
  for (size_t i = 0; i < speeds.size(); ++i) {
    if (kind_of[i] != nullptr) speeds[i] = kind_of[i]->median;
    if (!(speeds[i] > 0)) speeds[i] = usual;
  }
  return speeds;
}

}  // namespace skerry
