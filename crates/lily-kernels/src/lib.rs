//! lily-kernels
