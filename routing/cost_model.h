// What a stage costs: floating-point operations, bytes on the wire, seconds on a device and on a
// link.
//
// Counts follow the model (one multiply-add is two operations): a layer forward is 2 · weights per
// token plus causal attention, 2 · context · hidden per token (scores and values, half of the
// square masked); backward is twice forward; the head's loss does its forward and backward in one
// task. The embedding is a look-up and costs nothing here.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/ids.h"
#include "common/run_config.h"
#include "routing/topology.h"
#include "wire/message/device_profile.h"

namespace skerry {

inline constexpr double kBackwardPerForward = 2.0;
inline constexpr double kUnmeasuredGflops = 10.0;  // of a fleet in which nobody was measured

// Weights.
int64_t LayerParameters(const TransformerConfig& model);
int64_t EndsParameters(const TransformerConfig& model);  // embedding, final norm, head
int64_t StageParameters(const TransformerConfig& model, int32_t layers, bool holds_ends);
// Of a stage's blocks of tensors, in the order in which its parameters lie: embedding, layers, head
// with the final norm. They add up to StageParameters.
std::vector<int64_t> StageBlocks(const TransformerConfig& model, int32_t layers, bool holds_ends);

// Per microbatch.
int64_t MicrobatchTokens(const RunConfig& config);
int64_t BoundaryBytes(const RunConfig& config);  // one activation or gradient between stages
double LayerForwardFlops(const RunConfig& config);
// Of it, what is done again on the way back where only the layer's input was kept: all but the last
// product, whose result the way back does not read; of a ladder, where the MLP's input is kept,
// too, all but the last of both halves.
double LayerRepeatShare(const RunConfig& config);
// Of the inner optimizer, each step: Muon's products (model/orthogonal_step.h); else 0.
double LayerOptimizerFlops(const RunConfig& config);
// Of a step whose optimizer is offloaded (model/host_optimizer.h), for each parameter that a device
// steps, where nothing better is known: 12 bytes over PCI Express at 12 GB/s and, at the same time,
// 28 bytes of a host's memory at 20 GB/s or so; nodes announce neither.
inline constexpr double kOffloadSeconds = 1.5e-9;
double LossFlops(const RunConfig& config);  // final norm and head, forward and backward
// What the two ends of a link do with a byte before it leaves and after it came. A message waits
// for that as a whole, a line does not. Per byte and end CURVE takes 0.9 ns on a core, a
// digest 1.0, copies 0.3.
inline constexpr double kHandlingSecondsPerByte = 2 * 2.2e-9;

// Everything one microbatch asks of a layer, forward and backward, and of the head: the currency in
// which stages are balanced.
double LayerWork(const RunConfig& config);
double HeadWork(const RunConfig& config);

// Bytes of one replica's encoded delta (localsgd's codecs, to within their headers).
int64_t DeltaBytes(const RunConfig& config, int32_t layers, bool holds_ends);
int64_t DeltaBytesOf(const RunConfig& config, int64_t parameters);

double ComputeSeconds(double flops, double gflops);

// First byte out to last byte in, on an idle link: rtt / 2 + bytes / rate. Infinite when not
// usable.
double TransferSeconds(const LinkEstimate& link, int64_t bytes);

// The device with the rate of the type in which it would compute for this run as its rate: bf16
// where the run asks for it and the device has it.
DeviceProfile ComputingFor(const RunConfig& config, DeviceProfile device);

// GFLOP/s per node. Nodes that name the same device share the median of its readings: one machine's
// bad moment must not change who holds what. Not measured: the fleet's median.
std::vector<double> SpeedsOf(const std::vector<NodeId>& nodes,
                             const std::map<NodeId, DeviceProfile>& devices);

}  // namespace skerry
