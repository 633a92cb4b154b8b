// Of the host: kernels use nothing of it.
#pragma once
