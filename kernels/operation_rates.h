// How fast a backend runs each operation of a training step, beside what bounds it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace skerry {

// What an operation is bound by: arithmetic in this type, or memory.
enum class Bound : uint8_t { kFloat32, kBfloat16, kMemory };

// One operation on operands of its own, ready to run any number of times.
struct TimedOperation {
  std::string name;  // "RMSNorm, backward"
  Bound bound = Bound::kMemory;
  double work = 0;  // FLOP, or bytes read and written once, of one run
  std::function<void()> run;
  std::vector<std::unique_ptr<Buffer>> operands;
};

// A product in the three forms of a linear layer: Y = X·Wᵀ, dX = dY·W, dW = dYᵀ·X.
struct ProductShape {
  int64_t tokens, in, out;
};

// Operands are of backend.compute_type(). Empty if there is no memory for them. The backend lives
// as long as what is made here.
std::vector<TimedOperation> ProductOperations(Backend& backend, const ProductShape& shape);
// Forward, and backward. FLOP are counted of the causal half: 2 and 5 products of T·C/2·e·h.
std::vector<TimedOperation> AttentionOperations(Backend& backend, const AttentionShape& shape);
// Everything that goes once over its operands, larger than any cache: about `tokens` rows of 1088.
std::vector<TimedOperation> MemoryOperations(Backend& backend, int64_t tokens);

}  // namespace skerry
