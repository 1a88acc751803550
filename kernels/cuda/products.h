// Matrix products by cuBLASLt: what runtime.cu needs of products.cu.
#pragma once

#include <cstddef>

namespace skerry {

void* OpenProducts();  // null: the library does not start, or has no memory for its workspace
void CloseProducts(void* products);
size_t ProductsVersion();

}  // namespace skerry
