//! Hash functions of many messages at a time, each in a lane of AVX-512 registers.

#[cfg(target_arch = "x86_64")]
pub(crate) mod blake2b;
pub(crate) mod sha256;

/// Whether this processor has the instructions.
pub(crate) fn are_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
