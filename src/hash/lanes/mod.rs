//! Hash functions of many messages at a time, each in a lane of AVX-512 registers.

#[cfg(target_arch = "x86_64")]
pub(crate) mod blake2b;
pub(crate) mod sha256;

/// True if this processor has the instructions.
pub(crate) fn are_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// True if a test of the lanes must be skipped: without the instructions it would compare the fallback with itself.
#[cfg(test)]
pub(crate) fn is_test_skipped() -> bool {
    if !are_supported() {
        crate::skipped::skipped("this processor lacks AVX-512");
    }
    !are_supported()
}
