// What is done by tokens: rows of a table, gradients added to them, and statistics of logits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/kernel_table.h"
#include "kernels/tensor_view.h"

namespace skerry {

// As Backend::EmbeddingForward, EmbeddingBackward and LogitStatistics.
void FetchRows(std::span<const int32_t> tokens, ConstMatrix table, Matrix out);
void AddToTable(const KernelTable& kernels, std::span<const int32_t> tokens, ConstMatrix d_out,
                Matrix d_table);
void DescribeLogits(const KernelTable& kernels, int threads, std::span<const int32_t> targets,
                    ConstMatrix logits, float* statistics);

}  // namespace skerry
