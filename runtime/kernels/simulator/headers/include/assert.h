// What it declares for kernels is part of cuda_host.h.
#pragma once
